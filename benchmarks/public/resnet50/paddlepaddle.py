"""PaddlePaddle's own ResNet-50, trained as its users do: dygraph, NCHW.

Static programs are no faster without oneDNN; with it this model's max-pool fails in the backward
pass (dnnl::error in pool2d_grad), so dygraph is its best mode on the CPU.
"""

import paddle
from contestant import answering
from deployed.paddlepaddle import predictor
from paddle.vision.models import resnet50

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.resnet50 import facts

SOURCE = "paddlepaddle 3.3.1, paddle.vision.models.resnet50 (v1.5)"
REQUIREMENTS = []


def training(run):
    network = resnet50(num_classes=facts.CLASSES)
    network.train()
    trained = [p for p in network.parameters() if not p.stop_gradient]
    criterion = paddle.nn.CrossEntropyLoss(label_smoothing=facts.LABEL_SMOOTHING)
    sgd = paddle.optimizer.Momentum(
        facts.learning_rate(run.global_batch_size),
        facts.MOMENTUM,
        parameters=[
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": facts.WEIGHT_DECAY},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ],
        use_multi_tensor=True,
    )
    batches = open_batches(run, "NCHW")
    next_batch = feed(
        batches,
        lambda images, labels: (paddle.to_tensor(images), paddle.to_tensor(labels, "int64")),
    )

    def step():
        images, labels = next_batch()
        value = criterion(network(images), labels)
        value.backward()
        sgd.step()
        sgd.clear_grad()
        return value.detach()

    return Work(
        step=step,
        wait=paddle.device.synchronize if run.cuda else lambda: None,
        loss=lambda value: value.item(),
        parameters=sum(p.size for p in trained),
        batches=batches,
        parity={},
    )


def inference(run):
    """As its documents deploy it: the network saved, in paddle.inference's predictor."""
    network = resnet50(num_classes=facts.CLASSES)
    network.eval()
    size = run.dimensions["image_size"]
    spec = paddle.static.InputSpec([run.batch_size, 3, size, size], "float32")
    call = predictor(run, network, [spec])
    parameters = sum(p.size for p in network.parameters() if not p.stop_gradient)
    return answering(run, "NCHW", parameters, lambda images, labels: call(images))
