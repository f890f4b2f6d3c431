"""How many examples hypothesis tries: `make test-full` asks for more than `make test`."""

import os

from hypothesis import HealthCheck, settings


def examples(usual: int) -> settings:
    """Settings of a test that tries `usual` examples, or DLPERF_EXAMPLES where that is more."""
    return settings(
        max_examples=max(usual, int(os.environ.get("DLPERF_EXAMPLES", "0"))),
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
