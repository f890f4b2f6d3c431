"""What a model draws by itself while it is tested, of workloads whose models do.

`of` gives the module drawn.py of a workload's folder, or None. It has `words(outputs, batch)`: what
the answers say was drawn, an array of integers, -1 where they do not say it; `given(batch, drawn)`:
the batch by which the plain formulas draw the same; and `deviations(outputs, batch, drawn)`: how
many deviations that is from chance.
"""

import importlib
import importlib.util


def of(workload):
    name = "dlperf.workloads.%s.drawn" % workload
    return importlib.import_module(name) if importlib.util.find_spec(name) else None
