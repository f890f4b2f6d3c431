"""Wrong steps of PyTorch, each of which a check of what the null device was told must refuse.

A control is named in a step. Its edit is made in the process of that step, just before the page's
`training` is called.
"""

import functools

import torch
import torch_split_controls


def after_start(name: str, run, page) -> None:
    """Make the step wrong as the control says; "": in nothing."""
    if name:
        EDITS[name](run, page)


def _behind_loss(page, done) -> None:
    """The page's loss, of which this makes what the step takes."""
    original = page.loss

    @functools.wraps(original)
    def loss(run, network, *batch):
        return done(original(run, network, *batch))

    page.loss = loss


def item(run, page) -> None:
    """The host reads each loss when it is there."""

    def read(value):
        value.item()
        return value

    _behind_loss(page, read)


def unfused_update(run, page) -> None:
    """An optimiser that is not fused: with float16 the host reads whether a gradient overflowed."""

    def optimizer(run, network):
        return torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)

    page.optimizer = optimizer


def pageable_copy(run, page) -> None:
    """Each step copies an array of the host to the device out of memory that is not pinned."""
    array = torch.zeros(1024)

    def copied(value):
        return value + 0 * array.to("cuda", non_blocking=True).sum()

    _behind_loss(page, copied)


def growing(run, page) -> None:
    """Each step keeps what it gave, with a large array, so the device's memory is asked for."""
    kept = []

    def keep(value):
        kept.append(torch.empty(2**28, device="cuda"))
        return value

    _behind_loss(page, keep)


def wide_products(run, page) -> None:
    """ResNet-50's convolutions in float32 under mixed precision; all else in bfloat16."""
    original = page.conv

    def conv(*given, **settings):
        made = original(*given, **settings)
        forward = made.forward

        def wide(x):
            with torch.autocast(run.device, enabled=False):
                return forward(x.float())

        made.forward = wide
        return made

    page.conv = conv


def wide_dense(run, page) -> None:
    """A layer's first inner product in float32 under mixed precision."""
    from dlperf.frameworks.pytorch import transformer

    def widened(original):
        def made(self, *given, **settings):
            original(self, *given, **settings)
            dense = self.ffn1.forward

            def wide(x):
                with torch.autocast(run.device, enabled=False):
                    return dense(x.float())

            self.ffn1.forward = wide

        return made

    for layer in (transformer.Layer, transformer.DecoderLayer):
        layer.__init__ = widened(layer.__init__)


def channels_first(run, page) -> None:
    """Images and kernels of NCHW."""
    original, put = page.model, page.put
    page.model = lambda run: original(run).to(memory_format=torch.contiguous_format)
    page.put = lambda run, *arrays: [each.contiguous() for each in put(run, *arrays)]


def tf32(run, page) -> None:
    """Convolutions of float32 in TF32, as PyTorch does by itself, though fp32 is asked for."""
    torch.backends.cudnn.allow_tf32 = True


def tf32_products(run, page) -> None:
    """Products of float32 in TF32, though fp32 is asked for."""
    torch.backends.cuda.matmul.allow_tf32 = True


def exact_products(run, page) -> None:
    """Products of float32 in full, as PyTorch does by itself, though TF32 is asked for."""
    torch.backends.cuda.matmul.allow_tf32 = False


def loop_over_tensors(run, page) -> None:
    """An optimiser that takes one tensor after the other."""

    def optimizer(run, network):
        return torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, foreach=False)

    page.optimizer = optimizer


def separate_attention(run, page) -> None:
    """Attention of several kernels: products, a softmax and dropout."""
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)


def frozen(run, page) -> None:
    """No gradient of most parameters: a step that does less than is asked."""
    original = page.model

    def model(run):
        network = original(run)
        for parameter in list(network.parameters())[:-2]:
            parameter.requires_grad_(False)
        return network

    page.model = model


def host_count(run, page) -> None:
    """A step that changes what lies on the host: Inductor cuts it there, and waits."""
    count = torch.zeros(())

    def counted(value):
        count.add_(1)
        return value

    _behind_loss(page, counted)


def no_graphs(run, page) -> None:
    """A step whose graphs are not captured: it changes what is no weight, at another address for
    all that Inductor knows."""
    count = torch.zeros((), device="cuda")

    def counted(value):
        count.add_(1)
        return value

    _behind_loss(page, counted)


def one_by_one(run, page) -> None:
    """Gradients are exchanged in buckets that are too small for more than one."""
    from dlperf.frameworks.pytorch import training

    class Small(training.DistributedDataParallel):
        @functools.wraps(training.DistributedDataParallel.__init__)
        def __init__(self, network, **settings):
            super().__init__(network, bucket_cap_mb=0.01, **settings)

    training.DistributedDataParallel = Small


def narrow_exchange(run, page) -> None:
    """Gradients are exchanged in bfloat16, which halves their bytes and rounds their sum."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

    from dlperf.frameworks.pytorch import training

    class Narrow(training.DistributedDataParallel):
        @functools.wraps(training.DistributedDataParallel.__init__)
        def __init__(self, network, **settings):
            super().__init__(network, **settings)
            self.register_comm_hook(None, bf16_compress_hook)

    training.DistributedDataParallel = Narrow


def after_backward(run, page) -> None:
    """All gradients are exchanged when the backward pass has ended."""
    from dlperf.frameworks.pytorch import training

    class Later(torch.nn.Module):
        """A DataParallel that waits for the last gradient."""

        def __init__(self, network, **settings):
            super().__init__()
            self.module = network
            count = sum(each.requires_grad for each in network.parameters())
            arrived = []

            def exchange(parameter):
                arrived.append(parameter)
                if len(arrived) == count:
                    for each in arrived:
                        torch.distributed.all_reduce(each.grad)
                    arrived.clear()

            for each in network.parameters():
                each.register_post_accumulate_grad_hook(exchange)

        def forward(self, *batch):
            return self.module(*batch)

    training.DistributedDataParallel = Later
    training.buffers_apart = lambda parallel: {}


def keeping(run, page) -> None:
    """A large array of each step stays until the next one."""
    kept = []

    def keep(value):
        kept[:] = [torch.empty(2**28, device="cuda")]
        return value

    _behind_loss(page, keep)


EDITS = torch_split_controls.EDITS | {
    each.__name__.replace("_", " "): each
    for each in (
        item,
        unfused_update,
        pageable_copy,
        growing,
        wide_products,
        wide_dense,
        channels_first,
        tf32,
        tf32_products,
        exact_products,
        loop_over_tensors,
        separate_attention,
        frozen,
        host_count,
        no_graphs,
        one_by_one,
        narrow_exchange,
        after_backward,
        keeping,
    )
}
