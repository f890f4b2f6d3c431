from dlperf.frameworks.oneflow.process import *  # noqa: F403
