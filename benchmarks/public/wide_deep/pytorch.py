"""DeepCTR-Torch's WDL, trained as its own `fit` does: torch's Adam, which moves all rows.

Each field has a table of its own, and a batch is one float tensor, ids included. Without its
regularisation, which would read all rows once more.
"""

import importlib.util
import sys

import numpy as np
import torch

# its package without its __init__, which asks the network for a newer version
spec = importlib.util.find_spec("deepctr_torch")
sys.modules["deepctr_torch"] = importlib.util.module_from_spec(spec)

from deepctr_torch.inputs import DenseFeat, SparseFeat  # noqa: E402
from deepctr_torch.models.wdl import WDL  # noqa: E402

from dlperf.contract.work import Work, feed  # noqa: E402
from dlperf.workloads.inputs import open_batches  # noqa: E402
from dlperf.workloads.wide_deep import facts  # noqa: E402

SOURCE = "deepctr-torch 0.3.0, models.WDL; torch.optim.Adam of all rows"
REQUIREMENTS = [
    "deepctr-torch==0.3.0",
    "scikit-learn==1.7.2",
    "scipy==1.16.3",
    "joblib==1.5.2",
    "threadpoolctl==3.6.0",
    "tqdm==4.70.1",
]


def training(run):
    rows, width = run.dimensions["vocabulary"], run.dimensions["width"]
    crosses = [
        SparseFeat(f"cross{index}", rows // facts.CROSSES, embedding_dim=1)
        for index in range(facts.CROSSES)
    ]
    fields = [
        SparseFeat(f"field{index}", rows // facts.FIELDS, embedding_dim=width)
        for index in range(facts.FIELDS)
    ]
    numbers = [DenseFeat(f"number{index}", 1) for index in range(facts.NUMBERS)]
    network = WDL(
        crosses,
        fields + numbers,
        dnn_hidden_units=run.dimensions["layers"] * (facts.UNITS,),
        l2_reg_linear=0,
        l2_reg_embedding=0,
        dnn_dropout=facts.DROPOUT,
    )
    network.train()
    rate = facts.learning_rate(run.global_batch_size)
    adam = torch.optim.Adam(
        network.parameters(), rate, (facts.BETA1, facts.BETA2), facts.EPSILON, fused=True
    )
    criterion = torch.nn.functional.binary_cross_entropy
    batches = open_batches(run)

    def put(numbers, wide, deep, labels):
        """Its columns are crosses, fields and numbers; ids count from 0 in each field."""
        ids = wide % (rows // facts.CROSSES), deep % (rows // facts.FIELDS)
        columns = np.concatenate([*ids, numbers], 1).astype(np.float32)
        return torch.from_numpy(columns), torch.from_numpy(labels)

    next_batch = feed(batches, put)

    def step():
        columns, labels = next_batch()
        value = criterion(network(columns).squeeze(-1), labels, reduction="sum") / len(labels)
        adam.zero_grad()
        (value + network.get_regularization_loss() + network.aux_loss).sum().backward()
        adam.step()
        return value.detach()

    return Work(
        step=step,
        wait=lambda: None,
        loss=lambda value: value.item(),
        parameters=sum(p.numel() for p in network.parameters()),
        batches=batches,
        parity={},
    )
