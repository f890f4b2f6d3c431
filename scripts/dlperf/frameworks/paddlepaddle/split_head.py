"""A softmax over many classes whose weights ranks share out, in PaddlePaddle: the pieces of a head.

Each replica has a block of the classes' rows (`RowBlock`). `gathered` brings the features of all
replicas to each, `cross_entropy` is that of scores of which each rank has its own classes' columns,
`Classes` takes some rows, and `SGD` has momentum and decay of such rows alone. `train` is that of
training.py for a network with such a head, which stays out of the compiled part: samples have no
fixed size, and static programs no all-gather under gloo.

Paddle's own `margin_cross_entropy` and `class_center_sample`, which PLSC takes, are not taken: the
former has no kernel for CPUs, sums over ranks three times, and takes the arc cosine of what
rounding may have made larger than 1; the latter samples for one rank alone on a CPU.
"""

import paddle
import paddle.distributed as dist
from paddle import nn
from paddle.autograd import PyLayer

from dlperf import frameworks, workloads
from dlperf.contract.run import Unsupported
from dlperf.contract.shards import RowBlock
from dlperf.contract.work import Work, feed, restartable
from dlperf.frameworks.paddlepaddle import sparse
from dlperf.frameworks.paddlepaddle import training as framework
from dlperf.workloads.inputs import open_batches


class Classes(nn.Layer):
    """The classes' rows, without values yet: of a Tensor all of them, or a rank's block.

    first, count: the class of the first row, and how many there are. `lookups` are the rows taken
    since the last update: their numbers, and the rows, with which the backward pass leaves a
    gradient.
    """

    def __init__(self, run, name, tensor):
        super().__init__()
        self.is_shared_out = tensor.axis is not None
        if self.is_shared_out and run.amp and frameworks.half(run) == "float16":
            raise Unsupported("ranks of a split head do not agree on which steps overflow float16")
        shard = RowBlock(run, name, tensor) if self.is_shared_out else None
        self.first, self.count = (shard.first, shard.held) if shard else (0, tensor.shape[0])
        shape = [self.count, tensor.shape[1]]
        self.weight = self.create_parameter(shape, default_initializer=nn.initializer.Constant(0.0))
        if shard:
            self.weight.shard = shard
        self.lookups = []

    def places(self, labels):
        """The rows that labels are of; -1 for those of other ranks."""
        return places_of(labels, self.first, self.count)

    def taken(self, chosen):
        """The rows of these numbers, sorted, each once; their gradient is of them alone."""
        rows = paddle.gather(self.weight.detach(), chosen)
        rows.stop_gradient = False
        self.lookups.append((chosen, rows))
        return rows


def places_of(labels, first, count):
    """The rows that labels are of, counted from a rank's first of so many; -1 for other ranks'."""
    places = labels - first
    is_own = paddle.logical_and(places >= 0, places < count)
    return paddle.where(is_own, places, paddle.full_like(places, -1))


def all_gathered(run, tensor):
    """All ranks' tensors of this shape, one behind the other; on a GPU in the queue of what
    computes."""
    together = paddle.empty([run.ranks * tensor.shape[0], *tensor.shape[1:]], tensor.dtype)
    dist.stream.all_gather(together, tensor.contiguous(), use_calc_stream=run.cuda)
    return together


def gathered(run, features):
    """All replicas' features, those of rank 0 first. Their gradients are added up over ranks, and
    multiplied by how many there are, as DataParallel averages what comes of them."""
    return Gather.apply(features, run) if run.distributed else features


def gathered_labels(run, labels):
    """All replicas' labels in the same order."""
    return all_gathered(run, labels) if run.distributed else labels


class Gather(PyLayer):
    """See `gathered`."""

    @staticmethod
    def forward(context, features, run):
        context.run = run
        return all_gathered(run, features)

    @staticmethod
    def backward(context, gradient):
        run, gradient = context.run, gradient.contiguous()
        count = gradient.shape[0] // run.ranks
        if run.cuda:
            own = paddle.empty([count, *gradient.shape[1:]], gradient.dtype)
            dist.stream.reduce_scatter(own, gradient, use_calc_stream=True)
        else:  # gloo has no reduce-scatter
            dist.all_reduce(gradient)
            own = gradient[run.rank * count : (run.rank + 1) * count]
        return own * run.ranks


def cross_entropy(run, scores, places, is_split):
    """The mean over all rows of scores, of which each rank has some columns if `is_split`.

    scores: (batch, a rank's classes). places: (batch,), the column of a row's own class; below 0
    where another rank has it. On a CPU, Paddle's own takes what is more than 64 below the largest
    score for 64 below: cosines times 64 lie up to 128 apart.
    """
    return CrossEntropy.apply(scores, places, run, is_split and run.distributed)


class CrossEntropy(PyLayer):
    """See `cross_entropy`. Ranks exchange three numbers a row, once."""

    @staticmethod
    def forward(context, scores, places, run, is_split):
        is_own = (places >= 0).astype(scores.dtype)
        column = places.clip(min=0).unsqueeze(1)
        target = paddle.take_along_axis(scores, column, 1).squeeze(1) * is_own
        largest = scores.max(1)
        shares = (scores - largest.unsqueeze(1)).exp_()
        total, top = shares.sum(1), largest
        if is_split:
            together = all_gathered(run, paddle.stack([largest, total, target]))
            tops, totals, targets = together.reshape([run.ranks, 3, -1]).unbind(1)
            top, target = tops.max(0), targets.sum(0)
            total = (totals * (tops - top).exp()).sum(0)
        shares = shares.divide_((total * (top - largest).exp()).unsqueeze(1))
        context.save_for_backward(shares, column, is_own)
        return (top + total.log() - target).mean()

    @staticmethod
    def backward(context, gradient):
        shares, column, is_own = context.saved_tensor()
        less = paddle.put_along_axis(shares, column, -is_own.unsqueeze(1), 1, reduce="add")
        return less.multiply_(gradient / len(less)), None


def sampled(count, rows, places):
    """`rows` of `count` ones, sorted: all that `places` name, and others at random.

    places: (batch,), below 0 for none. More than `rows` where places name more.
    """
    keys = paddle.rand([count + 1])
    # what names none goes to one more, which is cut off
    named = paddle.where(places >= 0, places, paddle.full_like(places, count))
    keys = paddle.scatter_(keys, named, paddle.full([len(places)], 2.0, keys.dtype))[:count]
    if len(places) > rows:  # only then does the host wait for the number of them
        rows = max(rows, int((keys == 2.0).sum()))
    return paddle.sort(paddle.topk(keys, rows, sorted=False)[1])


class SGD(paddle.optimizer.Momentum):
    """Momentum and weight decay of all parameters; of sampled `Classes`, of the rows taken.

    v = momentum v + g + decay w; w -= rate v. Other rows rest, momentum, decay and all. In float64
    Paddle's kernel has momentum and decay as float32, which five steps show, so all is written out.
    """

    def __init__(self, rate, momentum, decay, parameters, classes=None):
        self.is_exact = parameters[0].dtype == paddle.float64
        super().__init__(
            rate,
            momentum,
            parameters,
            weight_decay=decay,
            use_multi_tensor=not self.is_exact,  # it has no float64
        )
        self.dense, self.classes, self.decay = parameters, classes, decay
        self.velocity = paddle.zeros_like(classes.weight) if classes else None
        self.velocities = list(map(paddle.zeros_like, parameters)) if self.is_exact else []

    def give(self, parameter, ids, gradient):
        """The next update takes rows (n, width) of ids (n,), some of which may be the same."""
        ids, gradient = sparse.summed(ids, gradient)
        rows = paddle.zeros_like(gradient)
        rows.stop_gradient = False  # only then it can have one
        rows.grad = gradient
        self.classes.lookups.append((ids, rows))

    def forget(self):
        """Velocities of its own as before the first step, and no rows taken."""
        for each in [*self.velocities, *([self.velocity] if self.classes else [])]:
            each.zero_()
        if self.classes:
            self.classes.lookups = []

    @paddle.no_grad()
    def step(self):
        if self.is_exact:
            for weight, velocity in zip(self.dense, self.velocities):
                velocity.scale_(self._momentum).add_(weight.grad + self.decay * weight)
                weight.subtract_(self.get_lr() * velocity)
        else:
            super().step()
        if self.classes is None:
            return
        weight, velocity = self.classes.weight, self.velocity
        [(ids, rows)] = self.classes.lookups
        self.classes.lookups = []
        values = paddle.gather(weight, ids)
        moved = paddle.gather(velocity, ids).scale_(self._momentum)
        moved.add_(rows.grad).add_(values.scale(self.decay))
        paddle.scatter_(velocity, ids, moved)
        paddle.scatter_(weight, ids, values.subtract_(moved.scale_(self.get_lr())))


def train(run, network, backbone, optimizer, weights, put, spec, layout, parity):
    """The Work of training `network`, as training.train has it.

    network: a layer that gives the mean loss of a batch: its `embedding` of the images, then its
    `head` of what that gives and the batch's other arrays. backbone: the layer in it that a static
    program is made of, from what `spec` says, and that mixed precision narrows.
    """
    parameters = sum(map(sparse.count, framework.trained(network)))
    if run.amp:
        _, optimizer = paddle.amp.decorate(
            backbone, optimizer, level="O2", dtype=frameworks.half(run), master_grad=True
        )
    # gradients in bfloat16 need no scale
    scaled = run.amp and frameworks.half(run) == "float16"
    scaler = paddle.amp.GradScaler(enable=scaled, init_loss_scaling=run.loss_scale)
    detail = framework.compiled(run, backbone, spec)[1] if run.compiler != "none" else {}
    # what ranks share out must not be averaged over them
    is_apart = run.distributed and network.head.classes.is_shared_out
    forward = network.embedding if is_apart else network
    if run.distributed:
        forward = paddle.DataParallel(forward)
    batches = open_batches(run, layout)
    next_batch = feed(batches, lambda *batch: put(run, *batch))

    def loss(images, *others):
        with framework.auto_cast(run):
            if not is_apart:
                return forward(images, *others)
            x = forward(images)
        return network.head(x, *others)

    def step():
        value = loss(*next_batch())
        if scaled:
            scaler.scale(value).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            value.backward()
            optimizer.step()
        optimizer.clear_grad(set_to_zero=False)
        return value.detach()

    work = Work(
        step=step,
        wait=paddle.device.synchronize if run.cuda else lambda: None,
        loss=lambda value: value.item(),
        parameters=parameters,
        batches=batches,
        parity=dict(
            detail,
            loss_scaling="dynamic, synchronises each step" if scaler.is_enable() else "none",
            compute_dtype=str(framework.trained(backbone)[0].dtype).replace("paddle.", ""),
            **parity,
        ),
        weights=weights,
    )
    scaling = scaler.state_dict()

    def forget_all():
        framework.forget(optimizer, framework.trained(network))
        scaler.load_state_dict(scaling)

    return restartable(work, forget_all, workloads.running_at_start(run))
