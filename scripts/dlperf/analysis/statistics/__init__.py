"""Statistics of repetitions: medians with exact intervals, what can be told apart, how many cells
changed. Numbers in, numbers out: nothing here knows of records or tables.
"""

#: Chance that some two cells of a ranking are told apart, where all of them are equal.
ERROR = 0.05
#: Least number of repetitions with which a cell is told apart from others. 3 would tell equal ones
#: apart in up to 9 % of rankings of 8, and find a difference of 3 standard deviations in 5 %.
LEAST = 4
