"""The largest size that fits: of a batch, or of what a workload says can be searched.

In: a case whose size is searched. Out: every try, and the largest size that was found. `find.py` is
the method; `tries.py` makes a try a fresh process and keeps it, so that a search can be resumed.
docs/largest-batch.md says what the number means.
"""
