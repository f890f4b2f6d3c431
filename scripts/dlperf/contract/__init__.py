"""What packages share: cases, what a rank is told and hands back, clocks, layouts, messages, files.

Imports nothing of dlperf but itself, so that every package may import from it. It stands beside a
framework (Python 3.7, standard library and NumPy only), but for `choices` and `problems`, which
only the workflow's own Python imports.
"""
