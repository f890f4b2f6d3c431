"""One rank of a probe (probe.py): python -m dlperf.measure.probe_rank --sustained=SECONDS SPEC"""

import sys

from dlperf.measure.probe import of_rank

if __name__ == "__main__":
    of_rank(sys.argv[2], float(sys.argv[1].partition("=")[2]))
