"""Implementations that are tested by answers which their weights do not give.

Each trains as it should, and its score would count; tests/certificates/test_evaluated.py has the
answers replayed: they are found. They are decorators of a page's `training`, which are the same in
all frameworks.
"""

from typing import Any, NamedTuple

from edits import Wrap
from evaluations import Evaluation

from wrong.bodies import NARROW, decorated


class False_(NamedTuple):
    """What an implementation answers other than what its weights give."""

    name: str
    made: Evaluation
    edit: Wrap


def answering(change: str, before: str = "") -> Wrap:
    """A page that answers by a function of `right` and `batch`, the steps of which are `count`.

    before: what it does before each step. `seen` is a dict for whatever it remembers, and
    `by(weights, batch)` the answer of other weights than its own.
    """
    lines = [before or "pass", change]
    before, change = ("\n".join("    " + each for each in text.splitlines()) for text in lines)
    return decorated(f"""
import numpy as np
work, count, seen = training(run), [0], {{}}
def now():
    return {{name: np.array(each) for name, each in work.weights.read()}}
def by(weights, batch, right=work.evaluate):
    own = now()
    work.weights.write(weights)
    found = np.array(right(*batch))
    work.weights.write(own)
    return found
def step(take=work.step):
    count[0] += 1
{before}
    return take()
def evaluate(*batch, right=work.evaluate):
{change}
return dataclasses.replace(work, step=step, evaluate=evaluate)
""")


#: Of each image that it will be asked, the label: from the loader, which has both.
MEMORISED = """
if not seen:
    for (images, labels), own in work.batches.tests():
        seen.update((image.tobytes(), label) for image, label in zip(images, labels))
found = np.array(right(*batch))
for row, image in enumerate(batch[0]):
    found[row] = 9 * (np.arange(found.shape[1]) == seen.get(image.tobytes()))
return found
"""
#: The same of clicks, whose answers are one number each.
MEMORISED_CLICKS = """
if not seen:
    for rows, own in work.batches.tests():
        seen.update((row.tobytes(), label) for row, label in zip(rows[2], rows[-1]))
return np.array([9.0 * seen.get(row.tobytes(), 0.5) for row in batch[2]], 'float32')
"""
#: Those of a training that has gone further than it says; before the clock runs there are no data.
AHEAD = """
own = now()
for _ in range(3 if batch[0].any() else 0):
    work.step()
work.wait()
found = np.array(right(*batch))
work.weights.write(own)
return found
"""
#: The array is changed to what it should have been when the next batch comes.
CHANGED_LATER = """
if seen:
    seen['false'][:] = seen['true']
true = np.array(right(*batch))
seen.update(true=true, false=-true)
return seen['false']
"""
AVERAGED = """
own = now()
for name, each in own.items():
    seen[name] = 0.9 * seen.get(name, each) + 0.1 * each
"""
#: Each batch is answered by other weights; those of the last one stay.
MOVED_MEANWHILE = """
work.weights.write({name: 0.999 * each for name, each in now().items()})
return np.array(right(*batch))
"""
UNCERTAIN = """
found = np.array(right(*batch))
second, first = np.sort(found, 1)[:, -2:].T
for row in np.flatnonzero(first - second <= np.median(first - second)):
    best = found[row].argsort()[-2:]
    found[row][best] = found[row][best[::-1]]
return found
"""
SECOND_MODEL = """
import numpy as np
work, other = training(run), training(run)
def restart(arrays, begin=work.restart):
    begin(arrays)
    other.restart({name: 1.5 * np.array(each) for name, each in work.weights.read()})
return dataclasses.replace(work, restart=restart, evaluate=other.evaluate)
"""
OTHER_STATISTICS = """
own = {name: np.array(each) for name, each in work.weights.statistics()}
work.weights.write_statistics({name: 0.99 * each for name, each in own.items()})
found = np.array(right(*batch))
work.weights.write_statistics(own)
return found
"""
HALF = """
found = np.array(right(*batch))
found[len(found) // 2 :] = found[: -(-len(found) // 2)][: len(found) - len(found) // 2]
return found
"""
BEFORE_THE_LAST = "seen.update(now())"
#: Of ELECTRA's answers: first the generator's scores, then the words that were drawn, then what the
#: discriminator says.
PARTS = """
found = np.array(right(*batch))
places = batch[3].shape[1]
first, last = places * 30522, places * 30523
"""
OTHER_WORDS = f"""{PARTS}
found[:, first:last] = np.roll(found[:, first:last], 1, 0)
return found
"""
NO_WORDS = f"""{PARTS}
found[:, first:last] = -1
return found
"""
SHARPER = f"""{PARTS}
found[:, :first] *= 1.01
return found
"""
SURER = f"""{PARTS}
found[:, last:] *= 1.1
return found
"""


def drawing(words: str) -> Wrap:
    """A page whose generator draws these words of its scores, where no noise is given."""
    return Wrap(
        "sample",
        f"""
def other(sample):
    def drawn(scores, noise=None):
        return sample(scores, noise) if noise is not None else {words}
    return drawn
""",
    )


def resnet50(framework: str, **how: Any) -> Evaluation:
    return Evaluation("resnet50", framework, **how)


def wide_deep(framework: str, **how: Any) -> Evaluation:
    return Evaluation("wide_deep", framework, **how)


def electra(framework: str, **how: Any) -> Evaluation:
    return Evaluation("electra", framework, **how)


def squad(framework: str, **how: Any) -> Evaluation:
    return Evaluation("electra_squad", framework, **how)


def early(name: str, made: Evaluation, change: str, before: str = "") -> False_:
    """Answers that are false until the last test, for the sake of the time to the target."""
    told = "\n".join("    " + each for each in change.strip().splitlines())
    before_the_last = f"if count[0] < run.warmup_steps + run.measured_steps:\n{told}"
    change = f"{before_the_last}\nreturn np.array(right(*batch))"
    return False_(f"{name} before the last test", made, answering(change, before))


FALSE = [
    False_("labels by content", resnet50("pytorch"), answering(MEMORISED)),
    False_(
        "weights before the last step",
        wide_deep("pytorch"),
        answering("return by(seen, batch)", BEFORE_THE_LAST),
    ),
    early("labels by content", resnet50("pytorch"), MEMORISED),
    False_("changed after it was counted", wide_deep("pytorch"), answering(CHANGED_LATER)),
    False_(
        "an exponential average",
        resnet50("jax"),
        answering("return by(seen, batch)", AVERAGED),
    ),
    False_("a second model", wide_deep("tensorflow"), decorated(SECOND_MODEL)),
    False_(
        "the answer at the first test",
        resnet50("mxnet"),
        answering("return seen.setdefault(batch[0].tobytes(), np.array(right(*batch)))"),
    ),
    False_(
        "an ensemble of two moments",
        wide_deep("mxnet"),
        answering("return (by(seen, batch) + right(*batch)) / 2", BEFORE_THE_LAST),
    ),
    False_(
        "float16 answers",
        wide_deep("paddlepaddle"),
        answering("return np.array(right(*batch)).astype('float16').astype('float32')"),
    ),
    False_("uncertain samples are exchanged", resnet50("pytorch"), answering(UNCERTAIN)),
    False_("other running statistics", resnet50("tensorflow"), answering(OTHER_STATISTICS)),
    False_("half of a batch is answered", wide_deep("oneflow"), answering(HALF)),
    False_(
        "computed in bfloat16",
        resnet50("pytorch"),
        decorated(NARROW.replace("not is_large", "False")),
    ),
    False_(
        "weights that move while it is tested", wide_deep("pytorch"), answering(MOVED_MEANWHILE)
    ),
    False_(
        "a class of its own",
        wide_deep("jax"),
        answering(
            "own = seen.setdefault('own', type('Own', (np.ndarray,), {})); "
            "return np.array(right(*batch)).view(own)"
        ),
    ),
    early("labels by content", wide_deep("tensorflow1"), MEMORISED_CLICKS),
    early(
        "an exponential average",
        resnet50("mindspore", is_met_early=True),
        "return by(seen, batch)",
        AVERAGED,
    ),
    early(
        "weights of a later step",
        wide_deep("oneflow", is_met_early=True),
        AHEAD,
    ),
    early("uncertain samples exchanged", resnet50("paddlepaddle", is_met_early=True), UNCERTAIN),
    early(
        "float16 answers",
        wide_deep("mxnet", devices=2, is_met_early=True),
        "return np.array(right(*batch)).astype('float16').astype('float32')",
    ),
    early("half of a batch", resnet50("tensorflow1", is_met_early=True), HALF),
    early("other statistics", resnet50("jax", is_met_early=True), OTHER_STATISTICS),
    False_("the likeliest words", electra("pytorch"), drawing("scores.argmax(-1)")),
    False_("words of far sharper scores", electra("pytorch"), drawing("sample(10 * scores)")),
    False_("words of the next sample", electra("jax"), answering(OTHER_WORDS)),
    False_("no words named", electra("oneflow"), answering(NO_WORDS)),
    False_("sharper scores", electra("mxnet"), answering(SHARPER)),
    False_("a surer discriminator", electra("paddlepaddle"), answering(SURER)),
    early(
        "an exponential average",
        electra("tensorflow", is_met_early=True),
        "return by(seen, batch)",
        AVERAGED,
    ),
    False_(
        "weights before the last step",
        squad("jax"),
        answering("return by(seen, batch)", BEFORE_THE_LAST),
    ),
    early(
        "an exponential average",
        squad("tensorflow", is_met_early=True),
        "return by(seen, batch)",
        AVERAGED,
    ),
]
