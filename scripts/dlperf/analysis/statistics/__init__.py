"""Statistics of repetitions: medians with exact intervals, which cells differ significantly, how
many changed. Numbers in, numbers out: nothing here knows of records or tables.
"""

#: Probability that any two cells of a ranking are called significantly different, where all of them
#: are equal; and that any cell of a comparison of rounds is, where nothing changed.
ERROR = 0.05
#: Least number of repetitions with which a cell can differ significantly from others. With 3, equal
#: ones would in up to 9 % of rankings of 8, and a difference of 3 standard deviations in 5 %.
LEAST = 4
