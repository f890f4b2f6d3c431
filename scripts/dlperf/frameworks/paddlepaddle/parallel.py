"""A model split over ranks in PaddlePaddle: by tensors and by layers, and layers computed again.

What a tensor group does between its own parts of a layer is Megatron-LM's (Shoeybi et al. 2019,
section 3), by collectives of this module: fleet's layers do the same, but their operators have no
CPU kernels. The pipeline is 1F1B (Narayanan et al. 2021, section 2.2) by send and receive. Each
layer is compiled by itself, as what ranks exchange lies between layers, and in them.
"""

import collections
import functools

import paddle
import paddle.distributed as dist
import paddle.nn.functional as F
from paddle import nn
from paddle.autograd import PyLayer
from paddle.distributed import fleet
from paddle.distributed.fleet.utils import hybrid_parallel_util, recompute

from dlperf import frameworks, workloads
from dlperf.contract.mesh import DATA, PIPELINE, TENSOR
from dlperf.contract.run import Unsupported
from dlperf.contract.work import Work, as_array, feed, restartable
from dlperf.frameworks.paddlepaddle import training as framework
from dlperf.frameworks.paddlepaddle import transformer
from dlperf.workloads.inputs import open_batches

#: The tracker's name of random numbers that each rank of a tensor group has of its own.
OWN_NUMBERS = "own"


def is_split(run):
    """Whether a model is trained by this module: split, or with its layers computed again."""
    return run.mesh.is_split or run.layout.activation_checkpointing


def refuse(run):
    """Raise Unsupported for what a split model cannot do."""
    if run.amp and frameworks.half(run) == "float16":
        raise Unsupported("ranks of a split model do not agree on which steps overflow float16")
    if run.compiler == "cinn":
        raise Unsupported("whether CINN left kernels is checked in the program of a whole model")


class Groups:
    """The process groups of this rank along each axis; None: of it alone.

    before, behind: those with the same place of the neighbouring stages. tied: that of the first
    and the last stage.
    """

    def __init__(self, grid, rank):
        self.data, self.tensor, self.pipeline = (
            own_group(grid, rank, grid.groups(axis)) for axis in (DATA, TENSOR, PIPELINE)
        )
        stages = grid.groups(PIPELINE)
        self.tied = own_group(grid, rank, [(each[0], each[-1]) for each in stages])
        self.before = self.behind = None
        for neighbours in zip(range(grid.pipeline - 1), range(1, grid.pipeline)):
            pairs = [tuple(each[stage] for stage in neighbours) for each in stages]
            made = own_group(grid, rank, pairs)
            if made and rank == made.ranks[0]:
                self.behind = made
            elif made:
                self.before = made


def own_group(grid, rank, groups):
    """The one of these groups that a rank is in, or None. Every rank makes every group, in one
    order, as Paddle wants it.

    Raises Unsupported for what gloo does not make for sure: of three ranks and more, the addresses
    of one group of connections are read as those of another of the same name (connection refused).
    """
    own = None
    for ranks in groups:
        if ranks[0] == ranks[-1]:
            continue
        if len(ranks) == grid.size:
            return dist.get_group()
        if len(ranks) > 2 and dist.get_backend() == "GLOO":
            raise Unsupported("PaddlePaddle's groups under gloo have two ranks, or all of them")
        dist.barrier()  # the same happens to two groups that are made at once
        made = dist.new_group(list(ranks))
        own = made if rank in ranks else own
    return own


@functools.lru_cache(maxsize=None)
def _groups(grid, rank):
    return Groups(grid, rank)


def groups(run):
    """The Groups of this rank, made once."""
    return _groups(run.mesh, run.rank)


def sum_over(tensor, group, operation=dist.ReduceOp.SUM):
    """Sum over a group, in place; on a GPU in the queue of what computes."""
    queued = tensor.place.is_gpu_place()
    dist.stream.all_reduce(tensor, operation, group, use_calc_stream=queued)
    return tensor


class Enter(PyLayer):
    @staticmethod
    def forward(context, x, group):
        context.group = group
        return x

    @staticmethod
    def backward(context, gradient):
        return sum_over(gradient, context.group)


class Leave(PyLayer):
    @staticmethod
    def forward(context, x, group):
        return sum_over(x, group)

    @staticmethod
    def backward(context, gradient):
        return gradient


class TensorGroup:
    """What the ranks do that divide each layer of a replica; one that is alone does nothing."""

    def __init__(self, run):
        self.ranks, self.rank = run.mesh.tensor, run.coordinates.tensor
        self.divides = self.ranks > 1
        self.group = groups(run).tensor if self.divides else None
        self.numbers = fleet.meta_parallel.get_rng_state_tracker()
        self.numbers.reset()
        if self.divides:
            self.numbers.add(OWN_NUMBERS, run.dropout_seed + 1000003 * (1 + self.rank))
        self.fused_loss = run.cuda

    def own_numbers(self):
        """In which a rank drops of its own heads; of all else the ranks drop the same."""
        return self.numbers.rng_state(OWN_NUMBERS)

    def enter(self, x):
        """What each rank has, before its own part of a product; its gradient is summed."""
        return Enter.apply(x, self.group) if self.divides else x

    def leave(self, x):
        """The sum of the ranks' parts of a product, in place."""
        return Leave.apply(x, self.group) if self.divides else x

    def own_entries(self, ids, count):
        """(ids among this rank's own `count` entries, whether each is): of others, the id is 0."""
        ids = ids - self.rank * count
        is_own = paddle.logical_and(ids >= 0, ids < count)
        return paddle.where(is_own, ids, paddle.zeros_like(ids)), is_own

    def looked_up(self, table, ids):
        """The rows of these ids, of an embedding that has a rank's own entries."""
        if not self.divides:
            return table(ids)
        ids, is_own = self.own_entries(ids, table.weight.shape[0])
        rows = table(ids)
        return self.leave(rows * is_own.astype(rows.dtype).unsqueeze(-1))

    def cross_entropy(self, scores, labels):
        """The mean over labels (n, 1) by scores (n, own entries)."""
        if not self.divides:
            return F.cross_entropy(scores, labels)
        if self.fused_loss:
            alike = fleet.meta_parallel.ParallelCrossEntropy(mp_group=self.group)
            return alike(scores.astype("float32"), labels).mean()
        largest = sum_over(scores.detach().max(-1, keepdim=True), self.group, dist.ReduceOp.MAX)
        scores = scores - largest
        labels, is_own = self.own_entries(labels, scores.shape[-1])
        hits = paddle.take_along_axis(scores, labels, -1) * is_own.astype(scores.dtype)
        return (self.leave(scores.exp().sum(-1, keepdim=True)).log() - self.leave(hits)).mean()


class DecoderLayer(transformer.DecoderLayer):
    """A decoder layer that is compiled by itself; a tensor group divides heads and inner layer."""

    def __init__(self, run, facts, width, heads, group):
        super().__init__(facts, width, heads, run.amp, group.ranks)
        self.group, self.recomputes = group, run.layout.activation_checkpointing
        if run.compiler != "none":
            for name in ("attended", "fed") if group.divides else ("whole",):
                compiled = paddle.jit.to_static(getattr(self, name), full_graph=True)
                setattr(self, name, compiled)

    def forward(self, x, bias):
        return recompute(self.computed, x, bias) if self.recomputes else self.computed(x, bias)

    def whole(self, x, bias):
        return transformer.DecoderLayer.forward(self, x, bias)

    def attended(self, x, bias):
        """A rank's part of what attention adds, without the bias, which is added once."""
        return paddle.matmul(self.mixed(x, bias), self.projection.weight)

    def fed(self, x):
        """A rank's part of what the dense layers add, without the bias."""
        return paddle.matmul(F.gelu(self.ffn1(x), approximate=True), self.ffn2.weight)

    def computed(self, x, bias):
        group = self.group
        if not group.divides:
            return self.whole(x, bias)
        normed = group.enter(self.norm1(x))
        with group.own_numbers():
            attended = self.attended(normed, bias)
        x = x + self.dropout(group.leave(attended) + self.projection.bias)
        inner = self.fed(group.enter(self.norm2(x)))
        return x + self.dropout(group.leave(inner) + self.ffn2.bias)


def compile_layers(run, network):
    """Compile each layer before the first step, by a call.

    Where a program's first call asks for no gradients, as `recompute` does, no call gives any.
    """
    x = activations(run, paddle.zeros)
    with framework.auto_cast(run):
        bias = network.bias(x)
        for layer in network.layers.values() if run.compiler != "none" else ():
            layer.computed(x, bias)


def activations(run, make):
    """What lies between two layers, as `make` of a shape and a type makes it; it has a gradient."""
    shape = [run.batch_size, run.dimensions["sequence_length"], run.dimensions["width"]]
    x = make(shape, frameworks.half(run) if run.amp else paddle.get_default_dtype())
    x.stop_gradient = False
    return x


class Weights(framework.Weights):
    """A rank's part of each parameter by canonical name."""

    def __init__(self, run, named):
        super().__init__(run, named)
        self._parts = {each.name: each for each in workloads.parts_of(run)}

    def read(self):
        for name, parameter in self.named.items():
            yield self._parts[name], self.array(name, parameter, parameter.shape[0])

    def write(self, arrays):
        for name, parameter in self.named.items():
            own = as_array(self._parts[name].of(arrays[name]))
            parameter.set_value(self.tensor(name, own))


class Clip(nn.ClipGradByGlobalNorm):
    """A clip by the norm of all gradients of the model, each value counted once.

    named: canonical name -> parameter of this rank.
    """

    def __init__(self, run, named, limit):
        super().__init__(limit)
        self._run = run
        self._stages = workloads.stages(run.workload, run.dimensions, run.mesh.pipeline)
        divided = {each.name for each in workloads.parts_of(run) if not each.is_whole}
        self._counted = {own.name for name, own in named.items() if self._counts(name, divided)}

    def _counts(self, name, divided):
        """Whether this rank counts a tensor that several ranks may have."""
        place = self._run.coordinates
        mine = name in divided or place.tensor == 0
        return mine and place.pipeline == self._stages[name][0]

    @paddle.no_grad()
    def _dygraph_clip(self, params_grads):
        """Scale all gradients in place. The host waits for nothing."""
        gradients = [gradient for _, gradient in params_grads]
        counted = [own for parameter, own in params_grads if parameter.name in self._counted]
        squares = paddle.zeros([1], gradients[0].dtype)
        if counted:
            norms = paddle.stack([paddle.linalg.norm(each) for each in counted])
            squares = squares + norms.square().sum()
        for group in (groups(self._run).tensor, groups(self._run).pipeline):
            if group:
                sum_over(squares, group)
        scale = (self.clip_norm / squares.sqrt()).clip(max=1.0)
        for gradient in gradients:
            gradient.multiply_(scale)
        return params_grads


def clip(run, named):
    """What clips, of a limit."""
    return functools.partial(Clip, run, named)


def exchange(run, named):
    """Sum the gradients of a table that two stages have, and average over replicas.

    named: canonical name -> parameter of this rank.
    """
    own, stages = groups(run), workloads.stages(run.workload, run.dimensions, run.mesh.pipeline)
    for name, parameter in named.items():
        if len(set(stages[name])) > 1:
            sum_over(parameter.grad, own.tied)
    if own.data:
        hybrid_parallel_util.fused_allreduce_gradients_with_group(list(named.values()), own.data)


class Pipeline:
    """The gradients of all micro-steps of an update, over stages, by 1F1B.

    network: this rank's stage. It has `enter(tokens)`, of the first stage; `decode(x)`; and
    `loss(x, labels)`, of the last one. x is (batch, tokens, width).
    """

    def __init__(self, run, network):
        self._run, self._network = run, network
        self._stage, self._stages = run.coordinates.pipeline, run.mesh.pipeline
        # Of two ranks each: of more, gloo's sends and receives count in each rank for itself, and
        # do not find each other.
        self._before, self._behind = groups(run).before, groups(run).behind

    def gradients(self, batches):
        """Add the gradients of these batches; their mean loss, or None on all but the last stage.

        Each stage starts as many forward passes as there are stages behind it, then does one of
        each in turn, then the backward passes that are left. batches: (tokens, labels) of each
        micro-step.
        """
        count = len(batches)
        early = min(count, self._stages - 1 - self._stage)
        going, losses = collections.deque(), []
        for batch in batches[:early]:
            x = self._passed(None, self._before)
            going.append(self._forward(x, *batch))
            self._passed(going[-1][1], None, self._behind)
        if early < count:
            x = self._passed(None, self._before)
        for number, batch in enumerate(batches[early:], 1):
            going.append(self._forward(x, *batch))
            out = going[-1][1]
            if self._behind is None:
                losses.append(out.detach())
            gradient = self._passed(out, self._behind, self._behind)
            own = self._backward(*going.popleft(), gradient)
            is_final = number == count - early
            x = self._passed(own, None if is_final else self._before, self._before)
        while going:
            gradient = self._passed(None, self._behind)
            self._passed(self._backward(*going.popleft(), gradient), None, self._before)
        return paddle.stack(losses).sum() if losses else None

    def _forward(self, x, tokens, labels):
        """(what came from the stage before, what this one makes of it: the last one its share of
        the loss)"""
        network = self._network
        with framework.auto_cast(self._run):
            out = network.decode(network.enter(tokens) if self._before is None else x)
            if self._behind is None:
                out = network.loss(out, labels) / self._run.accumulation
        return x, out

    def _backward(self, x, out, gradient):
        """The gradient of what came from the stage before; None of the first stage."""
        paddle.autograd.backward([out], [gradient])
        return None if x is None else x.grad

    def _passed(self, given, source, target=None):
        """What comes from the neighbour of the group `source`, after or before `given` goes to that
        of `target`; None: of none. Two stages that do both at once do so in opposite order, as gloo
        waits for the other.
        """
        came = None if source is None else activations(self._run, paddle.empty)
        sends = [(dist.isend, given.detach(), target)] if target is not None else []
        receives = [(dist.irecv, came, source)] if source is not None else []
        moves = sends + receives if self._stage % 2 == 0 else receives + sends
        if self._run.cuda and moves:
            moves = [
                dist.P2POp(move, tensor, self._of(group), group) for move, tensor, group in moves
            ]
            for each in dist.batch_isend_irecv(moves):
                each.wait()
            return came
        for move, tensor, group in moves:
            move(tensor, self._of(group), group).wait()
        return came

    def _of(self, group):
        """The neighbour in a group."""
        first, second = group.ranks
        return first if second == self._run.rank else second


def train(run, network, optimizer, weights, put, parity):
    """The Work of training `network`, a stage or all of it, as training.train has it."""
    refuse(run)
    if run.amp:
        network, optimizer = paddle.amp.decorate(
            network, optimizer, level="O2", dtype=frameworks.half(run), master_grad=True
        )
    compile_layers(run, network)
    batches = open_batches(run)
    next_batch = feed(batches, lambda *batch: put(run, *batch))
    if run.mesh.pipeline > 1:
        pipeline = Pipeline(run, network)

    def micro_step():
        """Add the gradients of a batch to those that are there."""
        with framework.auto_cast(run):
            value = network(*next_batch())
        if run.accumulation > 1:
            value = value / run.accumulation
        value.backward()
        return value.detach()

    def step():
        if run.mesh.pipeline > 1:
            value = pipeline.gradients([next_batch() for _ in range(run.accumulation)])
        else:
            value = micro_step()
            for _ in range(run.accumulation - 1):
                value = value + micro_step()
        exchange(run, weights.named)
        optimizer.step()
        optimizer.clear_grad(set_to_zero=False)
        return value

    def forget():
        framework.forget(optimizer, list(weights.named.values()))

    work = Work(
        step=step,
        wait=paddle.device.synchronize if run.cuda else lambda: None,
        loss=lambda value: None if value is None else value.item(),
        parameters=sum(each.size for each in weights.named.values()),
        batches=batches,
        parity=dict(
            compiled="layer by layer" if run.compiler != "none" else "none",
            loss_scaling="none",
            compute_dtype=framework.computed_in(network),
            **parity,
        ),
        weights=weights,
    )
    return restartable(work, forget, workloads.running_at_start(run))
