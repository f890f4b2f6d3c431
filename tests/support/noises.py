"""Noise of simulated repetitions, as shares of a speed: (dice, shape) -> array of that shape."""


def normal(dice, shape):
    return dice.normal(0, 0.01, shape)


def heavy_tails(dice, shape):
    """Student's t with 2 degrees of freedom: its variance is infinite."""
    return dice.standard_t(2, shape) * 0.01


def disturbed(dice, shape):
    """One repetition in ten loses 5 to 30 %, as on a host that is shared."""
    return normal(dice, shape) - (dice.random(shape) < 0.1) * dice.uniform(0.05, 0.3, shape)


def drifting(dice, shape):
    """A repetition is as fast as its time of the day, in all cells alike."""
    return normal(dice, shape) + dice.normal(0, 0.03, (shape[0], 1))
