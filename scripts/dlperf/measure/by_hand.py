"""A case document from a few options, for a machine that has a framework and no workflow.

    PYTHONPATH=scripts python -m dlperf.measure case --workload resnet50 --framework pytorch

In: options; what is left out has the value that a user of one GPU, or of one core, expects. Out:
the document on standard output, for `--case`; its record's place in a round on standard error.
A mistake ends in one message: option, value, what is allowed, the nearest valid name.
"""

import argparse
import dataclasses
import difflib
import json
import math
import re
import sys
from collections import OrderedDict

from dlperf import frameworks, workloads
from dlperf.contract import case as contract
from dlperf.contract import words
from dlperf.contract.case import IDENTITY, MINIMUM_SECONDS, OF_LAYOUT, PACED, SETTINGS, Field
from dlperf.contract.layout import Layout
from dlperf.measure import host
from dlperf.workloads.cases import case_of, known

#: What a user of one device expects, where the option is left out; of steps, as in a round.
DEFAULTS = {
    "cuda": {
        "precision": "amp",
        "warmup_steps": 20,
        "measured_steps": 100,
        "minimum_seconds": MINIMUM_SECONDS["cuda"],
        "cores_per_device": 4,
    },
    "cpu": {
        "precision": "fp32",
        "warmup_steps": 2,
        "measured_steps": 5,
        "minimum_seconds": MINIMUM_SECONDS["cpu"],
        "cores_per_device": 1,
    },
}
ALIKE = {
    "round": "by-hand",
    "scenario": "train",
    "nodes": 1,
    "devices_per_node": 1,
    "searched": "",
    "epochs": 0,
    "arrival_rate": 0,
    "data": "synthetic",
    "repetition": 1,
    "timeout_seconds": 600,
    "seed": 1,
    "memory_limit_bytes": 0,
}
#: A step has about so many TFLOP: on a GPU 256 images of ResNet-50, or 64 sequences of BERT-Base.
STEP_TFLOP = {"cuda": 5.0, "cpu": 0.2}
LARGEST_BATCH = 1 << 14
#: Beside those that configs know.
OTHER_WORDS = dict(words.OTHER_WORDS, eager="none", off="none")
SHORTER = {"devices_per_node": "--devices"}


class Mistake(ValueError):
    """An option that cannot be; the message is the whole of what the user sees."""


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Mistake(message)


def main(arguments):
    """Print the document. Exits with a message for a mistake."""
    try:
        document = of_options(arguments)
    except Mistake as mistake:
        sys.exit("error: %s" % mistake)
    identity = document["identity"]
    print(json.dumps(document, indent=1))
    place = (identity["round"], case_of(identity).folder, identity["repetition"])
    print(
        "the place of its record in a round: results/%s/runs/%s/rep%d.json" % place, file=sys.stderr
    )


def of_options(arguments):
    """The case document that the command line asks for. Raises Mistake."""
    first = _Parser(add_help=False, allow_abbrev=False)
    first.add_argument("--workload")
    workload = first.parse_known_args([each for each in arguments if each not in ("-h", "--help")])
    workload = workload[0].workload
    known = options([workload] if workload in workloads.NAMES else workloads.NAMES)
    parser = _Parser(
        prog="python -m dlperf.measure case",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for name, (key, field) in known.items():
        needed, text = key in ("workload", "framework"), _help(key, field)
        parser.add_argument(
            name, dest=key, required=needed, metavar=_metavar(key, field), help=text
        )
    asked, rest = parser.parse_known_args(arguments)
    if rest:
        _unknown(rest[0], known, workload)
    given = {key: value for key, value in vars(asked).items() if value is not None}
    fields = {key: (name, field) for name, (key, field) in known.items()}
    for key, text in given.items():
        given[key] = _value(fields[key][0], fields[key][1], text)
    return document(given)


def options(names):
    """Option -> (key, Field): what a document has, and the dimensions of these workloads."""
    found = OrderedDict()
    for key, field in list(IDENTITY.items()) + list(SETTINGS.items()):
        if key not in ("layout", "searched"):
            found[_option(key)] = (key, field)
    found["--workload"] = ("workload", Field(str, words=workloads.NAMES))
    there = tuple(name for name in frameworks.NAMES if frameworks.find(name))
    found["--framework"] = ("framework", Field(str, words=there))
    for key, field in OF_LAYOUT.items():
        found[_option(key)] = (key, Field(int, words=(0, 1)) if field.kind is bool else field)
    for name in names:
        for key, each in workloads.dimensions(name).items():
            words = tuple(each.words)
            kind = int if all(isinstance(word, int) for word in words) else str
            found[_option(key)] = (key, Field(kind, None if words else each.minimum, words))
    return found


def document(given):
    """A whole case document; `given` are the values that were asked for, by key. Raises Mistake."""
    device = given.get("device") or ("cuda" if host.visible_gpus() else "cpu")
    workload, framework = given["workload"], given["framework"]
    there = [name for name in frameworks.NAMES if workloads.implements(workload, name)]
    _one_of("--framework", framework, there)
    described, of_framework = workloads.of(workload), frameworks.of(framework)
    values = dict(ALIKE, **DEFAULTS[device])
    values["cores_per_device"] = min(values["cores_per_device"], len(host.cores()))
    values["compiler"] = of_framework.default_compiler[device]
    if given.get("scenario", ALIKE["scenario"]) not in PACED:
        values["minimum_seconds"] = 0
    values.update(given, device=device)
    _one_of("--compiler", values["compiler"], of_framework.compilers)
    _one_of("--data", values["data"], described.data)
    for key, each in described.dimensions.items():
        values.setdefault(key, each.standard)
        if each.maximum is not None and values[key] > each.maximum:
            raise Mistake(
                "%s: %d [allowed: at most %d]" % (_option(key), values[key], each.maximum)
            )
    own = {key: values[key] for key in described.dimensions}
    values.setdefault("batch_size", batch_size(described.flops_per_sample(own, "train"), device))
    if "data_dir" not in values:
        values["data_dir"] = _folder(values, described.data[values["data"]].folder, own)
    values["layout"] = _layout(values, described)
    identity = OrderedDict((key, values[key]) for key in IDENTITY)
    identity.update(own)
    reason = workloads.unsupported(identity)
    if reason:
        raise Mistake("--workload %s: %s" % (workload, reason))
    reason = frameworks.unsupported(dict(identity, device=device))
    if reason:
        asked = ("framework", "device", "precision", "compiler")
        raise Mistake("%s: %s" % (" ".join("--%s %s" % (k, values[k]) for k in asked), reason))
    found = {
        "schema": contract.SCHEMA,
        "identity": dict(identity),
        "settings": {key: values[key] for key in SETTINGS if key in values},
    }
    wrong = contract.problems(found, known())
    if wrong:
        raise Mistake(wrong[0])
    return found


def batch_size(flops, device):
    """The power of two with which a step has about STEP_TFLOP; `flops` are those of a sample."""
    nearest = round(math.log(max(1.0, STEP_TFLOP[device] * 1e12 / flops), 2))
    return min(LARGEST_BATCH, 2 ** int(nearest))


def _layout(values, workload):
    given = {key: field.kind(values[key]) for key, field in OF_LAYOUT.items() if key in values}
    layout = Layout(**given)
    for key in layout.asked():
        if key not in workload.ways:
            allowed = ", ".join(map(_option, workload.ways)) or "none of its kind"
            raise Mistake(
                "%s: %d: %s has no such way [allowed: %s]"
                % (_option(key), getattr(layout, key), workload.title, allowed)
            )
    problem = layout.problem(values["nodes"] * values["devices_per_node"])
    if problem:
        raise Mistake("--devices: %d: %s" % (values["devices_per_node"], problem))
    return dataclasses.asdict(layout)


def _folder(values, folder, dimensions):
    """Where the workflow puts that data; "" for synthetic data."""
    if "{format}" in folder:  # a framework's own, which its reader knows
        raise Mistake(
            "--data: %r: its folder is a framework's own; name it by --data-dir" % values["data"]
        )
    return "results/data/" + folder.format(**dimensions) if folder else ""


def _value(option, field, text):
    """The value that an option's text spells. Raises Mistake."""
    if field.words and field.kind is str:
        return _one_of(option, text, field.words)
    if field.kind is str:
        if not text or (option == "--round" and not re.fullmatch(r"[A-Za-z0-9._-]+", text)):
            raise Mistake("%s: %r [allowed: letters, digits, '.', '_' and '-']" % (option, text))
        return text
    try:
        value = int(text) if field.kind is int else float(text)
    except ValueError:
        raise Mistake("%s: %r is not a number%s" % (option, text, _allowed(field)))
    if field.words and value not in field.words:
        raise Mistake("%s: %r%s" % (option, text, _allowed(field)))
    if field.least is not None and not field.least <= value < math.inf:
        raise Mistake("%s: %r%s" % (option, text, _allowed(field)))
    return int(value) if value == int(value) else value


def _allowed(field):
    if field.words:
        return " [allowed: %s]" % ", ".join(map(str, field.words))
    return " [allowed: at least %d]" % field.least if field.least is not None else ""


def _one_of(option, value, words):
    """`value`, which must be one of `words`. Raises Mistake."""
    if value in words:
        return value
    raise Mistake(
        "%s: %r%s [allowed: %s]" % (option, value, meant(value, list(words)), ", ".join(words))
    )


def _unknown(option, known, workload):
    name = option.partition("=")[0]
    if not name.startswith("-"):
        raise Mistake("%r: no option stands before it" % option)
    of = " of %s" % workload if workload in workloads.NAMES else ""
    raise Mistake(
        "%s: no such option%s%s [allowed: %s]"
        % (name, of, meant(name, list(known)), " ".join(known))
    )


def meant(word, words):
    """ "; did you mean 'cuda'?", or "" where no word is near."""
    other = OTHER_WORDS.get(word.lower())
    near = [other] if other in words else difflib.get_close_matches(word.lower(), words, 1, 0.6)
    return "; did you mean '%s'?" % near[0] if near else ""


def _option(key):
    return SHORTER.get(key) or "--" + key.replace("_", "-")


def _help(key, field):
    """What is allowed, and what it is where it is left out."""
    allowed = ", ".join(map(str, field.words))
    if key in ALIKE:
        default = str(ALIKE[key])
    elif key in DEFAULTS["cpu"]:
        default = "; ".join("%s on %s" % (DEFAULTS[name][key], name) for name in DEFAULTS)
    else:
        default = {
            "device": "cuda if there is a GPU",
            "compiler": "the framework's own default",
            "batch_size": "for a step of %g TFLOP on a GPU, %g on a CPU"
            % (STEP_TFLOP["cuda"], STEP_TFLOP["cpu"]),
            "data_dir": "where the workflow puts that data",
        }.get(key, "")
    own = {name: workloads.dimensions(name).get(key) for name in workloads.NAMES}
    standards = [(str(each.standard), name) for name, each in own.items() if each]
    if standards:  # one for all, or each workload's
        alike = len({standard for standard, _ in standards}) == 1
        default = standards[0][0] if alike else ", ".join("%s for %s" % each for each in standards)
    return "; ".join(filter(None, (allowed, default and "default: " + default)))


def _metavar(key, field):
    if field.words:
        return "WORD"
    if key.endswith("_seconds"):
        return "SECONDS"
    return {str: "TEXT", int: "N"}.get(field.kind, "NUMBER")
