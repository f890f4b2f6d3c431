"""The method of a search: which size is tried next, and what follows from all tries.

In: a function that makes a try. Out: the largest size that was found. What is tried follows from
the results of the tries before it alone, so that a search can be resumed and checked by going
through its tries again.
"""

from collections.abc import Callable
from dataclasses import dataclass

#: More tries than this no search makes: it ends with what it has.
MOST_TRIES = 48
#: A first guess from two small sizes is so much of what they predict: it shall fit, because the
#: memory that it takes makes the second guess a good one.
CAREFUL = 0.9
#: How far above the largest that fits a guess may be.
FARTHEST = 16
#: Guesses by memory between a size that fits and one that does not, before halves are taken.
GUESSES = 3
#: So many granules above the largest are tried too, because what fits is not always monotone: one
#: more image can make a library choose another algorithm.
BEYOND = (2, 4)

#: A try of a few steps, and one as long as a repetition.
SHORT, FULL = "short", "full"


@dataclass(frozen=True)
class Try:
    """One try. peak_bytes: what it took of its limit_bytes of memory, 0 where that is not known."""

    value: int
    kind: str
    status: str
    reason: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0
    limit_bytes: int = 0
    start_utc: str = ""

    @property
    def fits(self) -> bool:
        return self.status == "ok"


Attempt = Callable[[int, str], Try]


@dataclass(frozen=True)
class Grid:
    """The sizes that are tried: multiples of `granule` from `least` to `most`.

    Below twice the granule every multiple of `fine` is tried, as one image more is much there.
    """

    least: int
    most: int
    granule: int
    fine: int

    def at(self, value: int) -> int:
        """The largest size that is not above `value`; 0 where there is none."""
        value = min(value, self.most)
        unit = self.fine if value < 2 * self.granule else self.granule
        return max(self.least, value // unit * unit) if value >= self.least else 0

    def above(self, value: int, granules: int = 1) -> int:
        """The size so many steps above `value`, which is a size; it may be above `most`."""
        for _ in range(granules):
            unit = self.fine if value < 2 * self.granule else self.granule
            value = value // unit * unit + unit
        return value

    @property
    def first(self) -> int:
        return self.at(max(self.least, self.granule))

    @property
    def last(self) -> int:
        return self.at(self.most)


@dataclass(frozen=True)
class Found:
    """What a search found: `value` is 0 where not even the least size fits.

    above: 'oom' where the next size runs out of memory, 'most' where the grid ends, else the status
    of the next size, which leaves open what would fit.
    """

    value: int
    above: str
    ended_by: Try | None = None


def find(attempt: Attempt, grid: Grid, repetitions: int) -> Found:
    """Search the largest size of `grid` with which `attempt` ends ok, and as many full ones do."""
    state = _State(grid)
    while state.count < MOST_TRIES:
        value = state.next()
        if value:
            state.add(attempt(value, SHORT))
            if state.impossible:
                break
            continue
        if not state.fits:
            break
        if _confirmed(state, attempt, repetitions) and not _beyond(state, attempt):
            break
    return state.found()


def _confirmed(state: "_State", attempt: Attempt, repetitions: int) -> bool:
    value = state.fits
    for _ in range(state.passed.get(value, 0), repetitions):
        state.add(attempt(value, FULL))
        if state.fits != value:
            return False
    return True


def _beyond(state: "_State", attempt: Attempt) -> bool:
    """Whether a size above the one that does not fit does."""
    value = state.fits
    if value == state.grid.last:
        return False
    for granules in BEYOND:
        other = state.grid.above(value, granules)
        if other <= state.grid.last and other not in state.failed:
            state.add(attempt(other, SHORT))
            if state.fits != value:
                return True
    return False


class _State:
    """What the tries so far say."""

    def __init__(self, grid: Grid) -> None:
        self.grid, self._limit = grid, 0
        self.failed: dict[int, Try] = {}
        self.passed: dict[int, int] = {}  # size -> full repetitions
        self._peaks: dict[int, int] = {}
        self.count = self._guesses = self._up = self._down = 0

    def add(self, done: Try) -> None:
        self.count += 1
        if not done.fits:
            self.failed[done.value] = done
            self.passed.pop(done.value, None)
            return
        self.passed[done.value] = self.passed.get(done.value, 0) + (done.kind == FULL)
        if done.peak_bytes:
            self._peaks[done.value], self._limit = done.peak_bytes, done.limit_bytes

    @property
    def fits(self) -> int:
        """The largest size that fits, 0 where none does yet."""
        return max(self.passed, default=0)

    @property
    def over(self) -> int:
        """The least size above it that does not, 0 where none is known."""
        return min((value for value in self.failed if value > self.fits), default=0)

    @property
    def impossible(self) -> bool:
        """Whether no size can run, as where there is no GPU; one that is too large alone cannot."""
        return not self.fits and any(each.status == "unsupported" for each in self.failed.values())

    def found(self) -> Found:
        ended = self.failed.get(self.over)
        if self.fits and self.grid.above(self.fits) > self.grid.last:
            return Found(self.fits, "most")
        if ended and self.fits and self.grid.above(self.fits) != self.over:
            return Found(self.fits, "unknown", ended)  # MOST_TRIES
        return Found(self.fits, ended.status if ended else "unknown", ended)

    def next(self) -> int:
        """The size to try next, 0 where the largest that fits has a neighbour that does not."""
        grid, low, high = self.grid, self.fits, self.over
        if not low:
            if not high:
                return grid.first
            return 0 if high == grid.least else max(grid.least, grid.at(high // 2))
        if low == grid.last or high == grid.above(low):
            return 0
        if not high:
            return self._upwards(low)
        middle = grid.at((low + high) // 2)
        guess = self._guess(low, high)
        return next(each for each in (guess, middle, grid.above(low)) if low < each < high)

    def _upwards(self, low: int) -> int:
        """A size above all tried ones: by the memory that they took, or twice the last one."""
        grid, predicted = self.grid, self._predicted()
        if predicted and low < predicted // 2:
            wanted = int(low + CAREFUL * (predicted - low))
        elif predicted:
            wanted = predicted
        else:
            wanted = 4 * low if len(self.passed) == 1 else 2 * low
        wanted = min(wanted, FARTHEST * low)
        return min(grid.last, max(grid.at(wanted), grid.above(low)))

    def _guess(self, low: int, high: int) -> int:
        """A size between one that fits and one that does not, by memory; 0 without a guess."""
        predicted = self.grid.at(self._predicted())
        if not predicted or self._guesses == GUESSES:
            return 0
        if low < predicted < high:
            self._guesses += 1
            return predicted
        unit = self.grid.above(low) - low
        if predicted <= low:
            self._up += 1
            return self.grid.at(low + unit * 2 ** (self._up - 1))
        self._down += 1
        return self.grid.at(high - unit * 2 ** (self._down - 1))

    def _predicted(self) -> int:
        """The size at which the limit is reached, by the two largest whose memory is known."""
        known = sorted(self._peaks)[-2:]
        if len(known) < 2 or not self._limit:
            return 0
        small, large = known
        growth = (self._peaks[large] - self._peaks[small]) / (large - small)
        if growth <= 0:
            return 0
        return max(0, int(large + (self._limit - self._peaks[large]) / growth))
