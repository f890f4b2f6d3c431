"""Change a module's syntax tree, by structure: for tests that want one thing of it otherwise.

An edit names a function and what it looks for in it, so that it survives other names of local
variables, other line breaks and functions that move to another module. Where that is not there
exactly as often as the edit says, `edited` raises NotThere.

What an edit looks for is Python in which `_x` is any expression (the same one wherever the pattern
repeats it), `_` any at all, and `...` in a call the arguments that the pattern does not name. What
replaces it uses the same names.
"""

import ast
import copy
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

REST = "..."

#: What a pattern's names and its `...` stand for.
Holes = dict[str, object]
Pattern = ast.expr | list[ast.stmt]


class NotThere(AssertionError):
    """What an edit looks for is missing, or is there more or less often than it says."""


@dataclass(frozen=True)
class Replace:
    """Replace `old` by `new` inside a function or class, "" for the whole module.

    old, new: one expression each, or statements. given: patterns that are found in the function
    too, all of whose places agree, for names that `old` leaves open. times: how often `old` must be
    there; 0: once or more. definitions: functions that `new` calls, put before the module's own.
    """

    within: str
    old: str
    new: str
    given: tuple[str, ...] = ()
    times: int = 1
    definitions: str = ""

    def apply(self, tree: ast.Module) -> int:
        """Change the tree, and return in how many places."""
        old, new = as_patterns(self.old, self.new)
        count = 0
        for scope in [tree] if not self.within else found(tree, self.within):
            holes = bound(scope, self.given)
            if holes is not None:
                count += replaced(scope, old, new, holes)
        if count:
            kinds = [isinstance(each, ast.FunctionDef | ast.ClassDef) for each in tree.body]
            first = (kinds + [True]).index(True)
            tree.body[first:first] = ast.parse(self.definitions).body
        return count


@dataclass(frozen=True)
class Wrap:
    """Put a decorator around a module's function. decorator: the source of its definition."""

    within: str
    decorator: str
    times: int = 1

    def apply(self, tree: ast.Module) -> int:
        """Change the tree, and return in how many places."""
        there = [each for each in found(tree, self.within) if each in tree.body]
        if there:
            (decorator,) = ast.parse(self.decorator).body
            assert isinstance(decorator, ast.FunctionDef)
            call = f"{self.within} = {decorator.name}({self.within})"
            tree.body += [decorator, *ast.parse(call).body]
        return len(there)


Edit = Replace | Wrap


def constant(name: str, value: str, within: str = "") -> Replace:
    """Another value for a constant of the facts, wherever the function reads it."""
    return Replace(within, f"facts.{name}", value, times=0)


def assignment(name: str, value: str) -> Replace:
    """Another value for a constant of the module itself."""
    return Replace("", f"{name} = _", f"{name} = {value}")


def edited(edit: Edit, sources: Mapping[Path, str]) -> tuple[Path, str]:
    """Return the one module in which the edit is made, and its new source."""
    counts, made = {}, {}
    for path, source in sources.items():
        if edit.within.rpartition(".")[2] not in source:
            continue  # sooner known than by its tree
        tree = ast.parse(source)
        count = edit.apply(tree)
        if count:
            counts[str(path)] = count
            made[path] = ast.unparse(ast.fix_missing_locations(tree))
    wanted = edit.times or sum(counts.values())  # 0: once or more
    if len(made) != 1 or sum(counts.values()) != wanted:
        raise NotThere(f"{edit} is there so often: {counts or 'nowhere'}")
    return made.popitem()


def edit_file(edit: Edit, path: Path) -> None:
    """Make the edit in this module alone."""
    _, source = edited(edit, {path: path.read_text()})
    path.write_text(source)


def found(tree: ast.AST, name: str) -> Iterator[ast.AST]:
    """The functions and classes of a qualified name, without <locals>."""
    first, _, rest = name.partition(".")
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            if child.name == first:
                yield from found(child, rest) if rest else [child]
        else:
            yield from found(child, name)


def as_patterns(*sources: str) -> list[Pattern]:
    """Expressions, if all are; else lists of statements."""
    try:
        return [ast.parse(source, mode="eval").body for source in sources]
    except SyntaxError:
        return [ast.parse(source).body for source in sources]


def bound(scope: ast.AST, given: tuple[str, ...]) -> Holes | None:
    """What the names of these patterns stand for; None where one of them is not there."""
    holes: Holes = {}
    for source in given:
        (pattern,) = as_patterns(source)
        matches = [match for _, match in places(scope, pattern, holes)]
        if not matches or any(not alike(matches[0], other) for other in matches):
            return None
        holes = {name: node for name, node in matches[0].items() if name != REST}
    return holes


def alike(one: Holes, other: Holes) -> bool:
    return all(text(one[name]) == text(other[name]) for name in one if name != REST)


def text(node: object) -> str:
    """A node's source, which is the same whether it is read or written."""
    return ast.unparse(node) if isinstance(node, ast.AST) else repr(node)


Place = tuple[ast.AST, str, int | None]  # a node's field, and the index where that is a list


def places(node: ast.AST, pattern: Pattern, holes: Holes) -> Iterator[tuple[Place, Holes]]:
    """Where the pattern stands below a node, outermost first, and what its names are there."""
    for field, value in ast.iter_fields(node):
        items = value if isinstance(value, list) else [value]
        index = 0
        while index < len(items):
            item, own, width = items[index], dict(holes), 1
            if not isinstance(pattern, list):
                hit = isinstance(item, ast.expr) and matches(pattern, item, own)
            else:
                width = len(pattern)
                hit = isinstance(item, ast.stmt) and matches(
                    pattern, items[index : index + width], own
                )
            if hit:
                yield (node, field, index if isinstance(value, list) else None), own
            elif isinstance(item, ast.AST):
                yield from places(item, pattern, holes)
            index += width if hit else 1


def replaced(scope: ast.AST, old: Pattern, new: Pattern, holes: Holes) -> int:
    """Replace the pattern below a node; returns in how many places."""
    hits = list(places(scope, old, holes))
    for (node, field, index), own in reversed(hits):  # the indices of those before stay
        by = filled(new, own)
        if index is None:
            setattr(node, field, by)
        elif isinstance(old, list):
            getattr(node, field)[index : index + len(old)] = by or [ast.Pass()]
        else:
            getattr(node, field)[index] = by
    return len(hits)


def matches(pattern: object, node: object, holes: Holes) -> bool:
    """Whether a node is like a pattern. holes: what names stand for so far, added to here."""
    if isinstance(pattern, ast.Name | ast.arg):
        name = pattern.id if isinstance(pattern, ast.Name) else pattern.arg
        if name.startswith("_"):
            if isinstance(node, ast.arg):
                node = ast.Name(node.arg)
            known = holes.setdefault(name, node) if name != "_" else node
            return isinstance(node, ast.expr) and text(known) == text(node)
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, list):
        assert isinstance(node, list)
        return len(pattern) == len(node) and all(
            matches(one, other, holes) for one, other in zip(pattern, node, strict=True)
        )
    if isinstance(pattern, ast.Call):
        assert isinstance(node, ast.Call)
        return matches_call(pattern, node, holes)
    if isinstance(pattern, ast.AST):
        return all(
            matches(getattr(pattern, field, None), getattr(node, field, None), holes)
            for field in pattern._fields
            if field not in ("ctx", "kind", "type_comment")
        )
    return pattern == node


def matches_call(pattern: ast.Call, node: ast.Call, holes: Holes) -> bool:
    """Arguments by name may stand in any order."""
    args, keywords = list(pattern.args), {each.arg: each.value for each in pattern.keywords}
    there = {each.arg: each.value for each in node.keywords}
    if open_ended(pattern):
        args.pop()
        others = [each for each in node.keywords if each.arg not in keywords]
        assert REST not in holes, "a pattern has one call with `...`"
        holes[REST] = (node.args[len(args) :], others)
    elif len(args) != len(node.args) or len(keywords) != len(there):
        return False
    return (
        matches(pattern.func, node.func, holes)
        and matches(args, node.args[: len(args)], holes)
        and all(name in there for name in keywords)
        and all(matches(value, there[name], holes) for name, value in keywords.items())
    )


def open_ended(call: ast.Call) -> bool:
    """Whether the last of its arguments without a name is `...`."""
    last = call.args[-1] if call.args else None
    return isinstance(last, ast.Constant) and last.value is ...


class Filler(ast.NodeTransformer):
    """Puts what was found in place of a template's names."""

    def __init__(self, holes: Holes):
        self.holes = holes

    def visit_Name(self, node: ast.Name) -> object:
        if not node.id.startswith("_"):
            return node
        return copy.deepcopy(self.holes[node.id])

    def visit_arg(self, node: ast.arg) -> object:
        name = self.holes[node.arg] if node.arg.startswith("_") else None
        return ast.arg(name.id) if isinstance(name, ast.Name) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        given = open_ended(node)
        if given:
            node.args.pop()
        self.generic_visit(node)
        if given:
            args, keywords = copy.deepcopy(self.holes[REST])
            node.args, node.keywords = node.args + args, node.keywords + keywords
        return node


@functools.singledispatch
def filled(template, holes: Holes):
    return Filler(holes).visit(copy.deepcopy(template))


@filled.register
def _(template: list, holes: Holes):
    return [filled(each, holes) for each in template]
