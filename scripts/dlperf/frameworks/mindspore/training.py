from dlperf.frameworks.mindspore.process import *  # noqa: F403
