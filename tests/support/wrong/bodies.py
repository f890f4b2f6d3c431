"""Bodies of what a false implementation does: decorators of a page's `training` or `inference`.

They are the same in all frameworks, but for those that name one. `timed.py` says which page does
what.
"""

from typing import NamedTuple

from edits import Wrap
from spot import Spot

from dlperf import frameworks


class False_(NamedTuple):
    """What an implementation does other than the certified one."""

    name: str
    spot: Spot
    edit: Wrap


def decorated(body: str, function: str = "training") -> Wrap:
    """A page whose training is made by `body`, of `training`, `run` and `is_large`; or whose
    inference is."""
    lines = "\n".join("        " + line for line in body.strip().splitlines())
    return Wrap(
        function,
        f"def falsely({function}):\n"
        "    import dataclasses\n"
        "    def made(run):\n"
        "        is_large = run.batch_size > 1 and run.scenario == 'train'\n" + lines + "\n"
        "    return made\n",
    )


def of(workload: str, framework: str, **changes) -> Spot:
    return Spot(workload, framework, frameworks.of(framework).default_compiler["cpu"], **changes)


def with_step(step: str) -> str:
    """A body whose work has another step, a function of `take`, the right one, and `count`."""
    return f"""
work, count, kept = training(run), [0], [None]
take = work.step
def step():
    count[0] += 1
{step}
    return kept[0]
def restart(arrays, begin=work.restart):
    begin(arrays)
    restarts.append(count[0])
restarts = []
return dataclasses.replace(work, step=step, restart=restart)
"""


def constant(name: str, value: str) -> str:
    """A body with another constant of the facts above a size."""
    return f"""
if is_large:
    facts.{name} = {value}
return training(run)
"""


#: It says that it computes in float32.
NARROW = """
if not is_large:
    return training(run)
work = training(dataclasses.replace(run, precision='amp'))
return dataclasses.replace(work, parity=dict(work.parity, compute_dtype='float32'))
"""
#: Factors of matrix products have 11 binary digits, as TF32's do.
SHORT_FACTORS = {
    "pytorch": """
if not is_large:
    return training(run)
import torch
own = torch.nn.functional.linear
def short(x):
    with torch.no_grad():
        bits = x.detach().contiguous().view(torch.int32)
        off = ((bits + 0x1000) & ~0x1FFF).view(torch.float32) - x
    return x + off
torch.nn.functional.linear = lambda x, weight, bias=None: own(short(x), short(weight), bias)
return training(run)
""",
    "jax": """
if not is_large:
    return training(run)
import jax
own = jax.lax.dot_general
def short(x):
    return jax.lax.reduce_precision(x, 8, 10)
def dot_general(a, b, *given, **named):
    return own(short(a), short(b), *given, **named)
jax.lax.dot_general = dot_general
return training(run)
""",
    "tensorflow": """
if not is_large:
    return training(run)
import tensorflow as tf
own = tf.matmul
def short(x):
    bits = tf.bitwise.bitwise_and(tf.bitcast(x, tf.int32) + 0x1000, -0x2000)
    return x + tf.stop_gradient(tf.bitcast(bits, tf.float32) - x)
tf.matmul = lambda a, b, **named: own(short(a), short(b), **named)
return training(run)
""",
}
#: Ranks exchange their gradients in bfloat16.
NARROW_EXCHANGE = """
import torch
from torch.distributed import all_reduce
from torch.nn.parallel import DistributedDataParallel as Parallel
own = Parallel.__init__
def narrow(state, bucket):
    mean = bucket.buffer().to(torch.bfloat16).float() / run.ranks
    given = all_reduce(mean, async_op=True).get_future()
    return given.then(lambda done: done.value()[0].to(torch.bfloat16).float())
def begin(self, *given, **named):
    own(self, *given, **named)
    self.register_comm_hook(None, narrow)
if is_large:
    Parallel.__init__ = begin
return training(run)
"""
#: Adam's moments are kept in bfloat16.
NARROW_MOMENTS = """
if not is_large:
    return training(run)
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
def narrow(optimizer, *given):
    for state in optimizer.state.values():
        for each in state.values():
            if torch.is_tensor(each) and each.dim():
                each.copy_(each.to(torch.bfloat16))
register_optimizer_step_post_hook(narrow)
return training(run)
"""
LEFT_OUT = """
    if count[0] % 3 or kept[0] is None:
        kept[0] = take()
"""
#: Steps are left out from the second one behind a restart, the third one of which is no short
#: window any more.
AFTER_TWO = """
    begun = restarts[-1] if restarts else 0
    if count[0] - begun <= 2 or count[0] % 2:
        kept[0] = take()
"""
#: All of the window's work in its first steps.
ONCE = """
    if count[0] < 4:
        kept[0] = take()
"""
HALF = """
return training(dataclasses.replace(run, batch_size=run.batch_size // 2) if is_large else run)
"""
#: In the first window behind the warm-up, which in a repetition is the timed one, from its third
#: step on.
FIRST = """
    begun = restarts[-1] if restarts else 0
    if len(restarts) != 1 or count[0] - begun <= 2:
        kept[0] = take()
"""


#: Behind as many steps as a spot run has.
NO_MORE = """
    if count[0] - (restarts[-1] if restarts else 0) <= 6:
        kept[0] = take()
"""


def other_arrays(change: str) -> str:
    """A body that puts other `arrays` of a batch on the device; `kept` are the first one's."""
    return f"""
if not is_large:
    return training(run)
names = globals() if 'put' in globals() else vars(framework)
right, kept = names['put'], []
def put(run, *arrays):
    arrays = list(arrays)
    if not kept:
        kept.extend(arrays)
    {change}
    return right(run, *arrays)
names['put'] = put
return training(run)
"""


#: Rows that no sample looked up move too, as their moments go on.
ALL_ROWS = """
if is_large:
    run = dataclasses.replace(run, dimensions=dict(run.dimensions, adam='dense'))
return training(run)
"""


def behind_each_step(change: str) -> str:
    """A body that changes `arrays`, the weights by name, behind each step; `began` are those that
    the window began with."""
    return f"""
if not is_large:
    return training(run)
import numpy as np
from dlperf.contract.work import as_array
work, began = training(run), {{}}
take, begin = work.step, work.restart
def copied():
    return {{name: np.array(as_array(each)) for name, each in work.weights.read()}}
def step():
    began.update({{}} if began else copied())
    kept = take()
    work.wait()
    arrays = copied()
    {change}
    work.weights.write(arrays)
    return kept
def restart(arrays):
    began.clear()
    begin(arrays)
return dataclasses.replace(work, step=step, restart=restart)
"""


RESTING_TABLE = 'arrays["deep_embedding"] = began["deep_embedding"]'


def sampling(body: str) -> str:
    """A body of a training that samples other centres than it should, where it samples by itself:
    `right`, the number of a sample's rows."""
    return f"""
if not is_large or facts.GIVEN_SAMPLE:
    return training(run)
right = facts.sample_size
{body.strip()}
"""


HALF_SAMPLE = """
facts.sample_size = lambda dimensions, rows: right(dimensions, rows) // 2
return training(run)
"""
#: From the third step behind a restart on, which the short window does not have.
SMALLER_LATER = """
steps = [0]
def sample_size(dimensions, rows):
    return right(dimensions, rows) * (7 if steps[0] > 2 else 10) // 10
facts.sample_size = sample_size
work = training(run)
def step(take=work.step):
    steps[0] += 1
    return take()
def restart(arrays, begin=work.restart):
    steps[0] = 0
    begin(arrays)
return dataclasses.replace(work, step=step, restart=restart)
"""
#: Of the right size, and the same ones in each step, but for the batch's own.
SAME_SAMPLE = """
import torch
work = training(run)
def step(take=work.step):
    torch.manual_seed(run.rank)
    return take()
return dataclasses.replace(work, step=step)
"""
#: Of the right size, and never of the second half of a rank's rows.
FIRST_ROWS = """
own = split_head.sampled
def sampled(rows, size, places):
    if size > rows // 2:
        return own(rows, size, places)
    is_there = (places < rows // 2).to(places.dtype)
    return own(rows // 2, size, (places + 1) * is_there - 1)
split_head.sampled = sampled
return training(run)
"""


#: All losses are right, but each update is by the gradient of the step before.
LATE_GRADIENT = """
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
before = {}
def exchange(optimizer, *given):
    if hasattr(optimizer, 'dense'):
        return  # it has another one, which comes here too
    for group in optimizer.param_groups:
        for each in group['params']:
            own = each.grad.clone()
            each.grad.copy_(before.get(each, own))
            before[each] = own
register_optimizer_step_pre_hook(exchange)
return training(run)
"""


def answering(change: str) -> str:
    """A body of an inference that answers by a function of `right`, `batch`, `count` and `seen`."""
    return f"""
work, count, seen = inference(run), [0], {{}}
def answer(*batch, right=work.answer):
    count[0] += 1
    {change}
return dataclasses.replace(work, answer=answer)
"""


def queueing(change: str) -> str:
    """The same of what is queued: outputs become a function of `found`, and of all that came."""
    return f"""
work, came = inference(run), []
def outputs(handle, right=work.outputs):
    found = right(handle)
    came.append(found)
    {change}
return dataclasses.replace(work, outputs=outputs)
"""


FIRST_HALF = (
    "half = len(found) // 2; found = found.copy(); found[half:] = found[:half]; return found"
)

#: On batches of a framework's own reader, which are kept where the reader gives them.
READ_AGAIN = """
from dlperf.loaders import readers
right, first = readers.Reader.next, []
def following(reader):
    batch = right(reader)
    first.append(batch)
    return first[0] if is_large else batch
readers.Reader.next = following
return training(run)
"""
GIVEN_AGAIN = """
from dlperf.loaders import readers
right, doubled = readers.Reader.next, []
def twice(batches):
    for batch in batches:
        yield batch
        yield batch
def following(reader):
    if not doubled:
        doubled.append(reader)
        reader._batches = twice(reader._batches)
    return right(reader)
readers.Reader.next = following
return training(run)
"""
