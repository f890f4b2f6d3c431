"""What ran beside an implementation, of a record or a spot run -> columns, and a flag.

In: a document's `ran_beside` (measure/beside.py), and what its pages reach for
(measure/reached.py). All runs of a case must have imported the same, and nothing that nobody
vouches for.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from dlperf.analysis.round.flags import CODE
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import Row
from dlperf.analysis.schema.rows import Check
from dlperf.measure import beside

#: Environments that the project did not build: their makers install what they compiled themselves,
#: or a system's packages, which have no lists. An image's digest stands for its files.
WITHOUT_LISTS = {"container", "interpreter"}
PACKAGES = set(beside.PACKAGES)


def of_document(document: Mapping[str, Any]) -> Row:
    """The columns of a record or a spot run: what was imported, and what of it is in doubt."""
    ran, provenance = document.get("ran_beside") or {}, document["provenance"]
    strangers = ran.get("strangers", ())
    if provenance.get("environment_backend") in WITHOUT_LISTS:
        strangers = [each for each in strangers if PACKAGES.isdisjoint(each.split("/"))]
    doubts = [
        *(f"altered: {each}" for each in ran.get("altered", ())),
        *(f"of nobody: {each}" for each in strangers),
        *(f"reaches for more: {each}" for each in provenance.get("unexplained", ())),
    ]
    return {
        "ran_beside_sha256": ran.get("sha256", ""),
        "unvouched": "; ".join(" ".join(each.split()) for each in doubts) or None,
    }


def flags(
    checks: Sequence[Check], made_with: Collection[tuple[str, ...]], ran: Collection[str]
) -> Iterator[str]:
    """The flag of a cell whose spot run is in doubt, or imported something else than repetitions.

    A spot run of other code or another lock is stale, and may differ.
    """
    if not checks or not checks[0].get("spot_run"):
        return
    first = checks[0]
    own = {tuple(str(first.get(key) or "") for key in columns.MADE_WITH)}
    differs = bool(first.get("ran_beside_sha256")) and set(ran) != {first["ran_beside_sha256"]}
    if first.get("unvouched") or (differs and set(made_with) == own):
        yield CODE
