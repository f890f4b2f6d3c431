from dlperf.frameworks.mxnet.process import *  # noqa: F403
