"""What a step does on a GPU, read in XLA's text of the program that it was compiled to.

In: `compiled.as_text()`. Out: kernels, copies, bytes, products and their types, collectives, and
whatever the host has to do with it. A loop whose number of turns XLA knows counts that often. What
only a card decides (which kernel of cuDNN or cuBLAS is fastest) is not in it.
"""

import collections
import functools
import math
import re
from typing import NamedTuple

#: Bytes of an element by the name of its type; others have their bits in their name.
BYTES = {"pred": 1, "token": 0, "opaque": 0, "s4": 0.5, "u4": 0.5, "c64": 8, "c128": 16}
ARRAY = re.compile(r"\b(pred|[a-z]+\d+[a-z0-9]*)\[([\d,]*)\]")

#: Instructions that no kernel stands for: names of other results, and ends of what was started.
FREE = {
    "parameter",
    "constant",
    "tuple",
    "get-tuple-element",
    "bitcast",
    "after-all",
    "partition-id",
    "replica-id",
    "opt-barrier",
    "domain",
    "add-dependency",
}
COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
)
#: Instructions by which a program and its host exchange something, or a rank and another's host.
HOST = ("infeed", "outfeed", "send", "recv", "copy-start-host")
PRODUCTS = ("dot", "convolution", "scaled-dot")


class Instruction(NamedTuple):
    """A line of a program. given: the text in its parenthesis; attributes: the text behind it."""

    name: str
    shape: str
    opcode: str
    given: str
    attributes: str

    @property
    def operands(self) -> list[str]:
        """Names of other instructions."""
        return re.findall(r"%([\w.\-]+)", self.given)

    def attribute(self, pattern: str) -> str:
        """The first group of this pattern in the attributes, or ""."""
        found = re.search(pattern, self.attributes)
        return found[1] if found else ""

    @property
    def target(self) -> str:
        """Of a custom call, the library's function."""
        return self.attribute(r'custom_call_target="([^"]+)"')

    @property
    def where(self) -> str:
        """The place in the page that it comes of, as JAX names it."""
        return self.attribute(r'op_name="([^"]*)"')


class Product(NamedTuple):
    """A convolution or matrix product. types: of both factors. labels: a convolution's layouts, as
    `b01f_01io->b01f`. precision: that of float32 factors, "highest" (all bits) or "default" (TF32).
    flops: two for each multiplication.
    """

    kind: str
    types: tuple[str, str]
    labels: str
    precision: str
    flops: int
    where: str

    @property
    def is_channels_last(self) -> bool:
        """Of a convolution: images and results are NHWC, as in `b01f_o01i->b01f`."""
        return self.labels.startswith("b01f_") and self.labels.endswith("->b01f")

    @property
    def is_tf32(self) -> bool:
        """Whether factors of float32 may be rounded to TF32's 10 bits."""
        return "f32" in self.types and self.precision not in ("highest", "high")


class Collective(NamedTuple):
    """An exchange with other ranks. bytes: of what it gives. asynchronous: kernels run beside."""

    kind: str
    bytes: int
    asynchronous: bool
    where: str


class Program:
    """A compiled program."""

    def __init__(self, text: str):
        self._computations = dict(_computations(text))
        (self._entry,) = (name for name in self._computations if name.startswith("ENTRY "))
        self._instructions = {
            name: {each.name: each for each in lines} for name, lines in self._computations.items()
        }

    # ---- how often, and what runs

    @functools.cached_property
    def _running(self) -> list[tuple[Instruction, int, str]]:
        """(instruction, times a step, its computation) of all that a step runs."""
        return list(self._run(self._entry, 1))

    def _run(self, computation, times):
        for each in self._computations[computation]:
            if each.opcode == "while":
                turns = int(each.attribute(r'"known_trip_count":\{"n":"(\d+)"') or 1)
                yield each, times, computation
                yield from self._run(self._called(each, "body"), times * turns)
                if not self._knows_turns(each):
                    yield from self._run(self._called(each, "condition"), times * turns)
            elif each.opcode == "conditional":
                # one of the branches: the one with the most instructions
                yield each, times, computation
                branches = re.findall(
                    r"%([\w.\-]+)",
                    each.attribute(r"branch_computations=\{([^}]*)\}")
                    or each.attribute(r"(true_computation=%\S+, false_computation=%\S+)"),
                )
                runs = [list(self._run(branch, times)) for branch in branches]
                yield from max(runs, key=len)
            elif each.opcode == "call":
                yield from self._run(self._called(each, "to_apply"), times)
            else:
                yield each, times, computation

    @staticmethod
    def _knows_turns(instruction):
        return bool(instruction.attribute(r'"known_trip_count":\{"n":"(\d+)"'))

    def _called(self, instruction, key):
        return instruction.attribute(key + r"=%?([\w.\-]+)")

    def _is_kernel(self, instruction):
        opcode = instruction.opcode
        is_end = opcode.endswith(("-done", "-update"))
        return not (opcode in FREE or is_end or opcode in ("while", "conditional"))

    @functools.cached_property
    def launches(self) -> collections.Counter:
        """What the host queues in a step, by kind: fusions, calls of libraries, copies, …"""
        found = collections.Counter()
        for each, times, _ in self._running:
            if self._is_kernel(each):
                found[self._kind(each)] += times
        return found

    def _kind(self, instruction):
        if instruction.opcode == "custom-call":
            return instruction.target
        if instruction.opcode == "async-start":
            return self._wrapped(instruction).opcode + "-start"
        return instruction.opcode

    def _wrapped(self, instruction):
        """The instruction that an async-start starts."""
        lines = self._computations[self._called(instruction, "calls")]
        return next(each for each in lines if each.opcode not in FREE)

    @property
    def kernels(self) -> int:
        """Fusions, calls of libraries and single operations a step; no copies and collectives."""
        return sum(
            count
            for kind, count in self.launches.items()
            if not kind.startswith(("copy", *COLLECTIVES))
        )

    # ---- bytes

    @functools.cached_property
    def bytes(self) -> int:
        """What kernels and copies read and write in a step, without caches and without workspaces.

        A kernel reads an array that it is given, and writes one that it gives, once; of a table
        whose rows it looks up or updates in place, those rows.
        """
        return sum(times * self._traffic(each, at) for each, times, at in self._running)

    def _traffic(self, instruction, computation):
        if not self._is_kernel(instruction):
            return 0
        there = self._instructions[computation]
        given = [there[name].shape for name in instruction.operands]
        result = re.sub(r", [su]8\[\d+\]\S*\)$", ")", instruction.shape)  # without a workspace
        if instruction.opcode != "fusion":
            return size(result) + sum(map(size, given))
        inside = self._fused(self._called(instruction, "calls"))
        moved, written = 0, size(result)
        for number, shape in enumerate(given):
            read, replaced = inside.get(number, (None, 0))
            moved += size(shape) if read is None else min(read, size(shape))
            written -= replaced
        return moved + max(written, 0)

    @functools.cache  # noqa: B019  as long as the program
    def _fused(self, computation):
        """{number of a parameter: (bytes that are read of it, bytes of results that stay)}, of a
        fused computation's parameters of which it touches a part alone."""
        lines = self._computations[computation]
        users = collections.defaultdict(list)
        for each in lines:
            for name in each.operands:
                users[name].append(each)
        found = {}
        for each in lines:
            if each.opcode == "parameter":
                touched = self._touched(each, users)
                if touched:
                    read, is_in_place = touched
                    whole = size(each.shape)
                    found[int(each.given)] = read, (whole - read if is_in_place else 0)
        return found

    def _touched(self, array, users):
        """(bytes of an array that its users read, whether they update these in place), or None
        where one of them takes all of it."""
        there, read, is_in_place = self._instructions_by_name, 0, False
        for each in users[array.name]:
            is_first = each.operands[0] == array.name
            if each.opcode in ("bitcast", "convert", "reshape"):
                behind = self._touched(each, users)
                if behind is None:
                    return None
                read, is_in_place = read + behind[0], is_in_place or behind[1]
            elif each.opcode in ("gather", "dynamic-slice", "slice") and is_first:
                read += size(each.shape)
            elif each.opcode in ("scatter", "dynamic-update-slice") and is_first:
                updates = each.operands[2 if each.opcode == "scatter" else 1]
                stays = all(user.opcode in ("tuple", "bitcast") for user in users[each.name])
                read, is_in_place = read + size(there[updates].shape), is_in_place or stays
            else:
                return None
        return read, is_in_place

    @functools.cached_property
    def _instructions_by_name(self):
        """All instructions: names are unique in a program."""
        return {each.name: each for lines in self._computations.values() for each in lines}

    @property
    def transposed(self) -> tuple[int, int]:
        """(copies and transposes that are kernels of their own, bytes that they move)"""
        count = moved = 0
        for each, times, at in self._running:
            if self._is_transposition(each):
                count += times
                moved += times * self._traffic(each, at)
        return count, moved

    def _is_transposition(self, instruction):
        if instruction.opcode in ("copy", "transpose"):
            return True
        if instruction.opcode != "fusion":
            return False
        lines = self._computations[self._called(instruction, "calls")]
        working = {each.opcode for each in lines} - FREE
        return (
            bool(working)
            and working <= {"transpose", "copy", "reshape", "convert"}
            and bool(working & {"transpose", "copy"})
        )

    # ---- what is in it

    @functools.cached_property
    def products(self) -> list[Product]:
        """Convolutions and matrix products of a step, those inside of fusions too; one in a loop as
        often as it is computed."""
        found = []
        for each, times, _ in self._running:
            lines = [each]
            if each.opcode == "fusion":
                inside = self._called_by_all(each)
                lines = [line for name in inside for line in self._computations[name]]
            for line in lines:
                if kind := self._product(line):
                    found += times * [self._described(kind, line)]
        return found

    def _called_by_all(self, instruction):
        """The names of all computations that a fusion consists of."""
        for name in re.findall(r"(?:calls|to_apply)=%([\w.\-]+)", instruction.attributes):
            yield name
            for each in self._computations[name]:
                yield from self._called_by_all(each)

    def _described(self, kind, line):
        shapes = [self._instructions_by_name[name].shape for name in line.operands[:2]]
        types = tuple(ARRAY.search(shape)[1] for shape in shapes)
        labels = line.attribute(r"dim_labels=([^\s,]+)")
        given = [sides(shape) for shape in shapes]
        flops = _convolved(line, labels, *given) if labels else _multiplied(line, given[0])
        return Product(kind, types, labels, _precision(line), flops, line.where)

    @staticmethod
    def _product(instruction):
        if instruction.opcode in PRODUCTS:
            return instruction.opcode
        target = instruction.target if instruction.opcode == "custom-call" else ""
        if target.startswith("__cudnn$conv"):
            return "convolution"
        return "dot" if target.startswith("__cublas") else ""

    @property
    def types(self) -> set[str]:
        """The types of all arrays in the program, those inside of fusions too."""
        return {
            kind
            for lines in self._computations.values()
            for each in lines
            for kind, _ in ARRAY.findall(each.shape)
        }

    @property
    def rounds(self) -> bool:
        """Whether a number is rounded to fewer bits than its type has."""
        lines = (each for lines in self._computations.values() for each in lines)
        return any(each.opcode == "reduce-precision" for each in lines)

    @functools.cached_property
    def collectives(self) -> list[Collective]:
        """Exchanges of a step, one that is repeated as often as it is."""
        found = []
        for each, times, _ in self._running:
            started = self._wrapped(each) if each.opcode == "async-start" else each
            kind = started.opcode.removesuffix("-start")
            if kind not in COLLECTIVES:
                continue
            is_started = each.opcode.endswith("-start")
            waits = '"is_sync":true' in each.attributes
            given = size(started.shape)
            if kind in ("all-gather", "collective-permute") and is_started:
                given = _result(started.shape)
            found += times * [Collective(kind, given, is_started and not waits, each.where)]
        return found

    @property
    def host(self) -> list[str]:
        """What the host does or waits for inside of a step; [] where it only queues.

        Calls into Python, transfers from and to the host, and loops and branches that the host
        decides by a number that it reads from the device.
        """
        found = []
        for each, _, _ in self._running:
            if each.opcode.partition("-")[0] in ("infeed", "outfeed", "send", "recv"):
                if "is_host_transfer=true" in each.attributes or "feed" in each.opcode:
                    found.append(f"{each.opcode}: {each.where}")
            elif "callback" in each.target:
                found.append(f"{each.target}: {each.where}")
            elif "S(5)" in each.shape:
                found.append(f"{each.opcode} in the host's memory: {each.where}")
            elif each.opcode == "while" and not self._knows_turns(each):
                found.append(f"a loop without a known number of turns: {each.where}")
            elif each.opcode == "conditional":
                found.append(f"a branch: {each.where}")
        return found


def _computations(text):
    """(name, [Instruction]) of each computation; the main one's name begins with "ENTRY "."""
    name, lines = "", []
    for line in text.splitlines():
        if not name:
            header = re.match(r"(ENTRY )?%?([\w.\-]+) .*\{$", line)
            if header and not line.startswith(("HloModule", " ")):
                name, lines = (header[1] or "") + header[2], []
        elif line.startswith("}"):
            yield name, lines
            name = ""
        else:
            found = re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = (\(?.*?\)?) ([a-z][\w\-]*)\((.*)$", line)
            if found:
                lines.append(Instruction(*found.groups()[:3], *_split(found[4])))


def _split(rest):
    """(the text inside of the parenthesis that is open, the text behind it)"""
    depth = 1
    for place, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return rest[:place], rest[place + 1 :]
    return rest, ""


def _precision(instruction):
    """ "highest", "high" or "default", of the factors; a named algorithm as it is."""
    algorithm = instruction.attribute(r"\balgorithm=(\w+)") or instruction.attribute(
        r'"algorithm":"(ALG_(?!UNSET)\w+)"'
    )
    if algorithm:
        return algorithm.lower()
    found = instruction.attribute(r"operand_precision=\{(\w+)") or instruction.attribute(
        r'"operand_precision":\["(\w+)"'
    )
    return (found or "default").lower()


def _multiplied(line, left):
    """FLOPs of a matrix product whose left factor has these sides."""
    contracted = line.attribute(r"lhs_contracting_dims=\{([\d,]*)\}") or line.attribute(
        r'"lhs_contracting_dimensions":\[([\d,"]*)\]'
    )
    places = map(int, re.findall(r"\d+", contracted))
    return 2 * math.prod(sides(line.shape)) * math.prod(left[place] for place in places)


def _convolved(line, labels, first, second):
    """FLOPs of a convolution, or of one of its gradients: for each place of its result's images,
    the whole kernel once, whose outputs are divided among the channels of that place."""
    images, kernel = sides(line.shape), second
    if line.target.endswith("BackwardFilter"):
        images, kernel = second, images
    elif line.target.endswith("BackwardInput"):
        images = first
    channels = images[labels.partition("->")[2].index("f")]
    return 2 * math.prod(images) // channels * math.prod(kernel)


def sides(shape: str) -> list[int]:
    """The sides of a shape's first array."""
    return [int(side) for side in ARRAY.search(shape)[2].split(",") if side]


def size(shape: str) -> int:
    """Bytes of a shape, or of all in a tuple."""
    return int(sum(_bytes(kind, sides) for kind, sides in ARRAY.findall(shape)))


def _bytes(kind, sides):
    width = BYTES.get(kind)
    if width is None:
        width = int(re.search(r"\d+", kind)[0]) / 8
    for side in filter(None, sides.split(",")):
        width *= int(side)
    return width


def _result(shape):
    """Bytes of the second part of a started collective's shape, (what is given, what comes, …)."""
    parts = ARRAY.findall(shape)
    return int(sum(_bytes(*each) for each in parts[len(parts) // 2 :]))
