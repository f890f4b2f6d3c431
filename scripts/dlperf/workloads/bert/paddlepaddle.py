"""BERT-Base pre-training in PaddlePaddle.

One product for query, key and value, `scaled_dot_product_attention` (flash or memory-efficient on
the GPU, plain products on the CPU), the decoder at predicted positions only, AdamW in one kernel a
tensor, the clip in place. On the CPU: to_static without oneDNN, whose products are several times
slower in training than Paddle's own (and whose gradients of a small attention differed). On the
GPU, which this has not run on: level O2 (fp16 weights, fp32 master weights) under AMP, with fp32
gradients for the clip's norm.
"""

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.contract.run import Unsupported
from dlperf.contract.work import Work, feed
from dlperf.data.loaders import open_batches
from dlperf.frameworks import paddlepaddle as framework
from dlperf.workloads.bert import facts


def dense(inputs, outputs):
    return nn.Linear(inputs, outputs, weight_attr=zeros())  # the stopwatch writes all weights


def embedding(entries):
    return nn.Embedding(entries, facts.WIDTH, weight_attr=zeros())


def layer_norm():
    return nn.LayerNorm(facts.WIDTH, epsilon=facts.LAYER_NORM_EPSILON)


def zeros():
    return nn.initializer.Constant(0.0)


class Layer(nn.Layer):
    def __init__(self):
        super().__init__()
        self.qkv = dense(facts.WIDTH, 3 * facts.WIDTH)
        self.projection = dense(facts.WIDTH, facts.WIDTH)
        self.norm1 = layer_norm()
        self.ffn1 = dense(facts.WIDTH, facts.INNER_WIDTH)
        self.ffn2 = dense(facts.INNER_WIDTH, facts.WIDTH)
        self.norm2 = layer_norm()
        self.dropout = nn.Dropout(facts.DROPOUT)

    def forward(self, x, bias):
        batch, tokens, width = x.shape
        heads = [batch, tokens, facts.HEADS, facts.HEAD_WIDTH]
        query, key, value = (each.reshape(heads) for each in self.qkv(x).split(3, -1))
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=bias, dropout_p=self.dropout.p
        )
        mixed = self.projection(mixed.reshape([batch, tokens, width]))
        x = self.norm1(x + self.dropout(mixed))
        inner = self.ffn2(F.gelu(self.ffn1(x)))
        return self.norm2(x + self.dropout(inner))


class Bert(nn.Layer):
    """The loss of a batch: masked words and sentence pairs."""

    def __init__(self):
        super().__init__()
        self.word_embedding = embedding(facts.VOCABULARY)
        self.position_embedding = embedding(facts.POSITIONS)
        self.segment_embedding = embedding(facts.SEGMENTS)
        self.embedding_norm = layer_norm()
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.layers = nn.LayerList([Layer() for _ in range(facts.LAYERS)])
        self.mlm = dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = layer_norm()
        self.mlm_bias = self.create_parameter([facts.VOCABULARY], is_bias=True)
        self.pooler = dense(facts.WIDTH, facts.WIDTH)
        self.nsp = dense(facts.WIDTH, 2)

    def forward(self, tokens, segments, mask, positions, labels, predicted, follows):
        batch, length = tokens.shape
        x = self.word_embedding(tokens) + self.segment_embedding(segments)
        x = x + self.position_embedding(paddle.arange(length))
        x = self.dropout(self.embedding_norm(x))
        bias = paddle.zeros_like(mask, dtype=x.dtype).masked_fill(mask == 0, -math.inf)
        bias = bias.reshape([batch, 1, 1, length])
        for layer in self.layers:
            x = layer(x, bias)

        first = paddle.arange(0, batch * length, length, dtype=positions.dtype)
        flat = x.reshape([batch * length, facts.WIDTH])
        chosen = flat.gather((positions + first.unsqueeze(1)).flatten())
        hidden = self.mlm_norm(F.gelu(self.mlm(chosen)))
        words = paddle.matmul(hidden, self.word_embedding.weight, transpose_y=True)
        words = words + self.mlm_bias
        each = F.cross_entropy(words, labels.reshape([-1, 1]), reduction="none")
        predicted = predicted.reshape([-1, 1])
        language = (each * predicted).sum() / predicted.sum()
        pairs = self.nsp(F.tanh(self.pooler(flat.gather(first))))
        return language + F.cross_entropy(pairs, follows)


def model(run):
    network = Bert()
    network.train()
    return network


def weights(network):
    """The parameters by the names of facts.parameters."""
    return framework.Weights(
        {
            own.replace("layers.", "layer").replace("embedding.weight", "embedding"): parameter
            for own, parameter in network.named_parameters()
        }
    )


def optimizer(run, network):
    parameters = network.parameters()
    decayed = {p.name for p in parameters if p.ndim > 1}  # dense weights, embeddings
    # No groups of parameters: each would be clipped by a norm of its own.
    return paddle.optimizer.AdamW(
        facts.learning_rate(run.global_batch_size),
        facts.BETA1,
        facts.BETA2,
        facts.EPSILON,
        parameters=parameters,
        weight_decay=facts.WEIGHT_DECAY,
        apply_decay_param_fun=lambda name: name in decayed,
        grad_clip=nn.ClipGradByGlobalNorm(facts.CLIP_NORM) if run.dimensions["clip"] else None,
    )


def training(run):
    network = model(run)
    exchanged = weights(network)
    parameters = sum(p.size for p in network.parameters())
    adam = optimizer(run, network)
    if run.amp:
        network, adam = paddle.amp.decorate(
            network, adam, level="O2", dtype="float16", master_grad=True
        )
    scaler = paddle.amp.GradScaler(enable=run.amp, init_loss_scaling=2.0**16)

    forward, detail = network, {}
    if run.compiler != "none":
        forward, detail = compiled(run, network)
    if run.distributed:
        forward = paddle.DataParallel(forward)
    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, lambda *batch: put(run, batch))

    def step():
        with paddle.amp.auto_cast(enable=run.amp, level="O2", dtype="float16"):
            value = forward(*next_batch())
        if run.amp:
            scaler.scale(value).backward()
            scaler.step(adam)
            scaler.update()
        else:
            value.backward()
            adam.step()
        adam.clear_grad(set_to_zero=False)
        return value.detach()

    return Work(
        step=step,
        wait=paddle.device.synchronize if run.cuda else lambda: None,
        loss=lambda value: value.item(),
        parameters=parameters,
        batches=batches,
        parity=dict(
            detail,
            attention="scaled_dot_product_attention",
            optimizer="AdamW",
            clip="global norm" if run.dimensions["clip"] else "none",
            loss_scaling="dynamic" if scaler.is_enable() else "none",
            compute_dtype=str(network.layers[0].qkv.weight.dtype).replace("paddle.", ""),
        ),
        weights=exchanged,
    )


def compiled(run, network):
    """`network` as one static program each way, and what the programs say of themselves.

    Raises Unsupported where CINN was asked for and left no kernel in them.
    """
    tokens = (run.batch_size, run.dimensions["sequence_length"])
    places = (run.batch_size, facts.masked_positions(tokens[1]))
    shapes = [tokens] * 3 + [places] * 3 + [(run.batch_size,)]
    types = ["int64"] * 5 + [paddle.get_default_dtype(), "int64"]
    spec = [paddle.static.InputSpec(*each) for each in zip(shapes, types)]
    paddle.set_flags({"FLAGS_use_onednn": False})  # slow here: see above
    cinn = run.compiler == "cinn"
    forward = paddle.jit.to_static(
        network, input_spec=spec, full_graph=True, backend="CINN" if cinn else None
    )
    with paddle.amp.auto_cast(enable=run.amp, level="O2", dtype="float16"):
        static, partial = forward.forward.get_concrete_program(*spec, is_train=True)
    detail = {"program_operations": len(static.main_program.global_block().ops)}
    if cinn:
        detail["cinn_kernels"] = str(partial.program.forward_program).count("cinn_runtime.jit")
        if not detail["cinn_kernels"]:
            raise Unsupported("to_static with the CINN backend left no CINN kernel in the program")
    return forward, detail


def put(run, batch):
    """A text.Batch -> tensors on the device: int64, and `predicted` in the model's type."""
    place = paddle.CUDAPinnedPlace() if run.cuda else paddle.CPUPlace()
    found = []
    for array in batch:
        dtype = paddle.get_default_dtype() if array.dtype.kind == "f" else "int64"
        tensor = paddle.to_tensor(array, dtype, place)
        found.append(tensor.cuda(blocking=False) if run.cuda else tensor)
    return found
