"""searches/ -> searches.tsv: a row for each try of the round's searches.

In: the document of each search, which `dlperf.search` wrote. Its tries are gone through again: what
it says was found must follow from them.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from dlperf import plan
from dlperf.analysis.schema.files import AnalysisError, Row
from dlperf.contract import searched
from dlperf.search import tries


def asked(cases: Iterable[plan.Case]) -> list[plan.Case]:
    """The cases whose largest size is searched."""
    return [case for case in cases if case.searched and not case.unsupported]


def rows(config: plan.Config, cases: Sequence[plan.Case], folder: Path) -> list[Row]:
    """Rows of searches.tsv, case by case in the order of the plan.

    Raises AnalysisError for a search that is not what its path and its tries say.
    """
    found: list[Row] = []
    for case in asked(cases):
        path = folder / searched.path_of(case)
        if not path.exists():
            continue
        try:
            search = searched.read(path)
        except ValueError as error:
            raise AnalysisError(str(error)) from None
        wanted = plan.document(case.sized(search["value"]), config, 1)
        wrong = tries.problems(search)
        if search.get("identity") != wanted["identity"]:
            wrong.append("identity is another than its path says")
        for key in ("settings", "search"):
            asked_for = wanted[key] if key == "settings" else plan.search_of(case, config)
            if not wrong and search.get(key) != asked_for:
                wrong.append(f"{key} are others than the round's config.yaml asks for")
        if wrong:
            raise AnalysisError(
                "\n".join(f"{path}: {each}" for each in wrong)
                + "\nMove it away and run the same command again: the search is made anew."
            )
        found += [_row(case, search, number, each) for number, each in _numbered(search)]
    return found


def _numbered(search: Row) -> Iterable[tuple[int, tries.Try]]:
    return enumerate(tries.parse(search["tries"]), start=1)


def _row(case: plan.Case, search: Row, number: int, each: tries.Try) -> Row:
    return {
        "workload": case.workload,
        "framework": case.framework,
        "compiler": case.compiler,
        "case": case.name,
        "searched": case.searched,
        "largest": search["value"] if search["status"] == "ok" else None,
        "above": search["above"],
        "why": search["reason"],
        "try": number,
        "size": each.value,
        "kind": each.kind,
        "status": each.status,
        "reason": each.reason,
        "seconds": each.seconds,
        "peak_bytes": each.peak_bytes or None,
        "limit_bytes": each.limit_bytes or None,
    }
