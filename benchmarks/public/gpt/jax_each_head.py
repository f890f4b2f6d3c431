"""The model of jax.py beside this, with dropout of attention's shares drawn for each head.

Flax draws it once for all heads where it is not told otherwise: less work than all others here do.
"""

import functools
import importlib.util
import os

from transformers.models.gpt2 import modeling_flax_gpt2 as modeling

SOURCE = "transformers 4.57.6, FlaxGPT2LMHeadModel, dropout of attention for each head"
REQUIREMENTS = "transformers-jax.txt"


def training(run):
    modeling.dot_product_attention_weights = functools.partial(
        modeling.dot_product_attention_weights, broadcast_dropout=False
    )
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jax.py")
    spec = importlib.util.spec_from_file_location("shared_dropout", path)
    published = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(published)
    return published.training(run)
