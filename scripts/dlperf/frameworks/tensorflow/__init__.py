from dlperf.frameworks.tensorflow.process import *  # noqa: F403
