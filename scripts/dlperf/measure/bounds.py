"""Why a case's windows are not replayed, or "": what is known before anything runs.

In: a case, and the bounds of the config's `checks`. So a spot run is planned only where its replay
is, and the merge says the same reason.
"""

from dlperf import frameworks, scenarios, workloads
from dlperf.contract import draws
from dlperf.contract.proof import applies, number

#: Billions of operations a second of the plain formulas: in float64 on two cores of a server CPU,
#: ResNet-50 on 64 pixels; in float32 on a GPU a third of what a V100 has at most (15.7 TFLOP/s by
#: its data sheet), which is no measurement. What a replay takes is estimated by it, whatever
#: machine it runs on, so that a config means the same everywhere.
GFLOPS = {"cpu": 6.0, "cuda": 5000.0}
#: Bytes of a number there.
BYTES = {"cpu": 8, "cuda": 4}
#: Copies of all weights: before, after, gradients, two moments, and what is added to them.
COPIES = 7
#: What chance makes of a training that draws random numbers: so many draws of the formulas' own.
DRAWS = 12
#: A replay in float64, and one in float32 that shows what rounding does, at twice the speed; on a
#: GPU one alone.
REPLAYED = {"cpu": 1.5, "cuda": 1.0}
#: The weights alone, as the formulas have them and as they were drawn.
COPIES_OF_INFERENCE = 2
#: What plain formulas in float64 take, over what a training in float32 may commit: twice the bytes,
#: and what a framework's fused operators never keep.
IN_FLOAT64 = 3
#: Answers that are replayed: two of each of a group's frameworks.
ANSWERS = 16
#: Answers to a sample of a test: two, as the model could draw random numbers.
EVALUATED = 2
#: Numbers of 11 binary digits are held to what those of 8 are (bfloat16), which is looser than they
#: need: no card has shown what they do.
COARSER = {"tf32": "amp", "amp_fp16": "amp"}
#: Steps of the short window, which is drawn, that are counted on.
SHORT_STEPS = 2


def reason(case, device, measured_steps, precision_kinds, seconds, gigabytes):
    """Why the spot run of a Case is not made, or "".

    device: of the round, which replays it, too. measured_steps: of a repetition. precision_kinds:
    whose tolerances it would be held to; those of any of them have to be known. seconds, gigabytes:
    the bounds.
    """
    if scenarios.load(case.scenario).COUNTED:
        return "trainings to a quality have no spot runs"
    if frameworks.of(case.framework).counted:
        return "its framework is told how many steps there are, and begins no training anew"
    if not any(allowed(case, each) for each in precision_kinds):
        return "no tolerances of spot runs are known in %s" % case.precision
    if case.searched:
        if has_own_batches(case):
            return "a framework's own reader gives the batches, of a size that a search finds"
        case = case.sized(1)  # more is known behind the search, to the replay itself
    if has_own_batches(case):
        room = draws.kept_steps(case.dimensions, case.batch_size, case.layout.accumulation)
        if measured_steps > room:
            return "a framework's own reader keeps batches of %d steps at this size" % room
    return beyond(*cost(case, device, measured_steps), seconds, gigabytes)


def unreplayed(case, seconds, gigabytes):
    """Why no test of a Case is replayed, or "": of the quality scenario, the last one is."""
    if not scenarios.load(case.scenario).CURVED:
        return "models are evaluated in the quality scenario alone"
    if not any(allowed_answers(case, each) for each in kinds(case.precision)):
        return "no tolerances of outputs are known in %s" % case.precision
    grid = case.layout.mesh(case.devices)
    if case.layout.zero_stage or workloads.is_split(case.workload, case.dimensions, grid):
        return "no rank has all weights"
    took = case.devices * seconds_of_sample(case)
    size = COPIES_OF_INFERENCE * 8 * workloads.parameter_count(case.workload, case.dimensions) / 1e9
    return beyond(took, size, seconds, gigabytes)


def seconds_of_sample(case):
    """What the answer to one sample takes, about."""
    flops = workloads.of(case.workload).flops_per_sample(case.dimensions, "infer")
    return EVALUATED * flops / (GFLOPS["cpu"] * 1e9)


def samples(case, seconds):
    """How many samples of each rank's batch are replayed, in so many seconds: one at least."""
    each = seconds / (case.devices * seconds_of_sample(case))
    return int(max(1, min(case.batch_size, each)))


def beyond(took, size, seconds, gigabytes):
    """Which bound a replay is beyond, or ""."""
    if took > seconds:
        return "a replay would take about %.0f s; checks.seconds: %g" % (took, seconds)
    if size > gigabytes:
        return "a replay would take about %.1f GB; checks.gigabytes: %g" % (size, gigabytes)
    return ""


def cost(case, device, measured_steps):
    """(seconds, gigabytes) that a group's replay takes on the device, about; of a GPU's memory that
    is without activations."""
    trains = scenarios.load(case.scenario).TRAINS
    copies, passes = COPIES_OF_INFERENCE, ANSWERS
    if trains:
        copies, passes = COPIES, REPLAYED[device] * (SHORT_STEPS + measured_steps)
        if workloads.draws(case):
            passes += DRAWS * SHORT_STEPS
    if has_own_batches(case):  # of each framework
        passes *= sum(workloads.implements(case.workload, each) for each in frameworks.NAMES)
    scenario = "train" if trains else "infer"
    flops = workloads.of(case.workload).flops_per_sample(case.dimensions, scenario)
    size = copies * workloads.parameter_count(case.workload, case.dimensions) / 1e9
    took = flops * case.global_batch_size * passes / (GFLOPS[device] * 1e9)
    return took, size * BYTES[device]


def committed(case, memory_limit_bytes):
    """The gigabytes that a replay takes on a CPU of what fits into a device's `memory_limit`."""
    return IN_FLOAT64 * case.devices * memory_limit_bytes / 1e9


def has_own_batches(case):
    """Whether a framework's own reader gives the batches, which nobody else could draw again."""
    return workloads.data(case.workload)[case.data].loader == "readers"


def allowed(case, kind):
    """What a case's spot run is held to by tolerances of this kind; None: they are not known."""
    if scenarios.load(case.scenario).TRAINS:
        spots = workloads.spot(case.workload)
        return spots.get(kind) or spots.get(COARSER.get(kind))
    return allowed_answers(case, kind)


def allowed_answers(case, kind):
    """The same of a case's outputs: of an inference, or of a test."""
    found = workloads.proof(case.workload).tolerances.get(kind)
    return number(found.outputs) if found and applies(found.outputs) else None


def kinds(precision):
    """The kinds of tolerances that a case of this precision may be held to: of mixed precision the
    process says which narrow type it took."""
    if precision == "amp_fp16":
        return ("amp_fp16",)
    return ("amp", "amp_fp16") if precision == "amp" else (precision.partition("_")[0],)
