from dlperf.frameworks.tensorflow1.process import *  # noqa: F403
