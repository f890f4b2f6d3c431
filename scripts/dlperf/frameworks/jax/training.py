from dlperf.frameworks.jax.process import *  # noqa: F403
