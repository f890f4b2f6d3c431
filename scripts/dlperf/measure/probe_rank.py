"""One rank of a probe: python -m dlperf.measure.probe_rank SPEC (see probe.py)."""

import sys

from dlperf.measure.probe import of_rank

if __name__ == "__main__":
    of_rank(sys.argv[1])
