"""Statistics of repetitions: medians with exact intervals, what can be told apart, how many cells
changed. Numbers in, numbers out: nothing here knows of records or tables.
"""
