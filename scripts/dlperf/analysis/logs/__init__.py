"""Logs of public training scripts, read so that an upstream run counts as a repetition.

One module a source: what its lines look like, as data (`forms.Source`). Around them, the same for
all: lines.py (a file as lines), stamps.py (times), entries.py (what lines say of training),
tracks.py (runs and ranks), window.py (the steps that count), estimate.py (rows), command.py.
"""

import importlib

from dlperf.analysis.logs.forms import Source

#: Name on the command line -> its module.
SOURCES = {
    "dllogger": "dllogger",
    "gluon-cv": "gluon_cv",
    "gluon-nlp": "gluon_nlp",
    "tf-models": "tf_models",
    "paddle": "paddle",
    "oneflow": "oneflow",
    "mindspore": "mindspore",
    "hugectr": "hugectr",
    "megatron": "megatron",
    "deepspeed": "deepspeed",
    "mllog": "mllog",
}


def load(name: str) -> Source:
    """The description of a source."""
    module = importlib.import_module(f"dlperf.analysis.logs.{SOURCES[name]}")
    source: Source = module.SOURCE
    return source
