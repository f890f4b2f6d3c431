"""Why a case's windows are not replayed, or "": what is known before anything runs.

In: a case, and the bounds of the config's `checks`. So a spot run is planned only where its replay
is, and the merge says the same reason.
"""

from dlperf import frameworks, scenarios, workloads
from dlperf.contract.proof import applies, number

#: Billions of operations a second of the plain formulas in float64, on two cores of a server CPU:
#: ResNet-50 on 64 pixels. What a replay takes is estimated by it, whatever machine it runs on, so
#: that a config means the same everywhere.
GFLOPS = 6.0
#: float64 copies of all weights: before, after, gradients, two moments, and what is added to them.
COPIES = 7
#: What chance makes of a training that draws random numbers: so many draws of the formulas' own.
DRAWS = 12
#: A replay in float64, and one in float32 that shows what rounding does, at twice the speed.
REPLAYED = 1.5
#: The weights alone, in float64 and as they were drawn.
COPIES_OF_INFERENCE = 2
#: Answers that are replayed: two of each of a group's frameworks.
ANSWERS = 16
#: Answers to a sample of a test: two, as the model could draw random numbers.
EVALUATED = 2
#: Numbers of 11 binary digits are held to what those of 8 are (bfloat16), which is looser than they
#: need: no card has shown what they do.
COARSER = {"tf32": "amp", "amp_fp16": "amp"}
#: Steps of the short window, which is drawn, that are counted on.
SHORT_STEPS = 2


def reason(case, measured_steps, precision_kinds, seconds, gigabytes):
    """Why the spot run of a Case is not made, or "".

    measured_steps: of a repetition. precision_kinds: whose tolerances it would be held to;
    those of any of them have to be known. seconds, gigabytes: the bounds.
    """
    kind = workloads.data(case.workload)[case.data]
    scenario = scenarios.load(case.scenario)
    if scenario.COUNTED:
        return "trainings to a quality have no spot runs"
    if frameworks.of(case.framework).counted:
        return "its framework is told how many steps there are, and begins no training anew"
    if not any(allowed(case, each) for each in precision_kinds):
        return "no tolerances of spot runs are known in %s" % case.precision
    if kind.loader == "readers":
        return "batches of a framework's own reader are not kept"
    if kind.folder and not scenario.TRAINS:
        return "of an inference, only synthetic batches can be drawn once more"
    if case.searched:
        return "the size is not known before a search"
    return _beyond(*cost(case, measured_steps), seconds, gigabytes)


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
    return _beyond(took, size, seconds, gigabytes)


def seconds_of_sample(case):
    """What the answer to one sample takes, about."""
    flops = workloads.of(case.workload).flops_per_sample(case.dimensions, "infer")
    return EVALUATED * flops / (GFLOPS * 1e9)


def samples(case, seconds):
    """How many samples of each rank's batch are replayed, in so many seconds: one at least."""
    each = seconds / (case.devices * seconds_of_sample(case))
    return int(max(1, min(case.batch_size, each)))


def _beyond(took, size, seconds, gigabytes):
    """Which bound a replay is beyond, or ""."""
    if took > seconds:
        return "a replay would take about %.0f s; checks.seconds: %g" % (took, seconds)
    if size > gigabytes:
        return "a replay would take about %.1f GB; checks.gigabytes: %g" % (size, gigabytes)
    return ""


def cost(case, measured_steps):
    """(seconds, gigabytes) that a group's replay takes, about."""
    trains = scenarios.load(case.scenario).TRAINS
    copies, passes = COPIES_OF_INFERENCE, ANSWERS
    if trains:
        copies, passes = COPIES, REPLAYED * (SHORT_STEPS + measured_steps)
        if workloads.draws(case):
            passes += DRAWS * SHORT_STEPS
    scenario = "train" if trains else "infer"
    flops = workloads.of(case.workload).flops_per_sample(case.dimensions, scenario)
    size = copies * 8 * workloads.parameter_count(case.workload, case.dimensions) / 1e9
    return flops * case.global_batch_size * passes / (GFLOPS * 1e9), size


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
