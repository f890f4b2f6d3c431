"""Certificates of equal work -> certificates.tsv, and what they mean for a cell.

In: the plan and the folder that all rounds share. Out: a row a tier of every certificate that the
round's cases need; one that was not made is a row too. As with records, a file that is not what its
path says stops the merge: it would prove something else.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from dlperf.analysis.round import labels
from dlperf.analysis.round.flags import NOT_EQUIVALENT
from dlperf.analysis.schema import columns, documents
from dlperf.analysis.schema.files import AnalysisError, Row
from dlperf.analysis.schema.rows import Certificate, value_of
from dlperf.certify import check
from dlperf.contract import storage, strict_json
from dlperf.plan import Case, Config
from dlperf.workloads.cases import case_of_row

#: What a certificate is of, and what its path says.
KEY = columns.CERTIFICATE[:7]

Key = tuple[Any, ...]


def key(row: Mapping[str, Any], case: Case | None = None) -> Key:
    """Which certificate covers a cell; `case` is the row's, where that is known."""
    case = case or case_of_row(row)
    found = {"variant": case.variant, "layout": case.proved}
    return tuple(found[name] if name in found else row[name] for name in KEY)


def read(config: Config, cases: Iterable[Case], shared: Path) -> list[Certificate]:
    """Rows of certificates.tsv, in the order of the plan.

    Raises AnalysisError, which names every file that is no certificate or is another one's.
    """
    wanted = {
        case.certificate(config.device): key({**case.columns("", 0), "device": config.device})
        for case in cases
        if not case.unsupported
    }
    rows, problems = [], []
    for path, asked in wanted.items():
        own = dict(zip(KEY, asked, strict=True))
        try:
            content = (shared / path).read_bytes()
        except FileNotFoundError:
            rows.append({**own, "status": "missing", "reason": "not made yet", "certificate": path})
            continue
        except OSError as error:
            if storage.is_lacking(error):
                raise
            problems.append(f"{shared / path}: cannot be read: {error.strerror}")
            continue
        document, wrong = parse(content, own)
        problems += [f"{shared / path}: {each}" for each in wrong]
        if document:
            sha256 = hashlib.sha256(content).hexdigest()
            found = {**own, "certificate": path, "certificate_sha256": sha256}
            rows += [{**found, **each} for each in _tiers(document)]
    if problems:
        raise AnalysisError(
            "\n".join(problems) + "\nThese are not certificates of this round, so nothing was "
            "merged. Remove them and run the same command again: they are made anew."
        )
    return cast(list[Certificate], rows)


def none(rows: Iterable[Row]) -> list[Row]:
    """Rows of certificates.tsv for what was measured elsewhere."""
    reason = "whoever measured it did not prove equal work"
    return [
        {**dict(zip(KEY, each, strict=True)), "status": "none", "reason": reason}
        for each in dict.fromkeys(map(key, rows))
    ]


def parse(content: bytes, wanted: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """(certificate, problems) of a file's content that should be of `wanted`."""
    try:
        document = strict_json.parse(content)
    except ValueError as error:
        return None, [f"is not JSON, perhaps half-written: {error}"]
    if wrong := documents.problems(document, documents.CERTIFICATE):
        return None, [f"is not a dlperf.certificate/2: {each}" for each in wrong]
    problems = [
        f"{name} is {document[name]!r}, but its path says {wanted[name]!r}"
        for name in KEY
        if document[name] != wanted[name]
    ]
    problems = problems or check.problems(document)
    return (None, problems) if problems else (document, [])


def _tiers(document: Mapping[str, Any]) -> Iterator[Row]:
    provenance = document["provenance"]
    for tier in document["tiers"]:
        worst = tier.get("worst", {})
        others = [
            f"{name.replace('_', ' ')} {value:.4g}"
            if isinstance(value, float)
            else f"{name} {value}"
            for name, value in worst.items()
            if name not in ("tensor", "step")
        ]
        yield {
            "status": "passed" if document["passed"] else "failed",
            "tier": tier["name"],
            "tier_passed": {True: "true", False: "false", None: ""}[tier["passed"]],
            "measured": tier.get("measured"),
            "tolerance": tier.get("tolerance"),
            "worst_tensor": worst.get("tensor", ""),
            "worst_step": worst.get("step"),
            "reason": tier.get("reason", ", ".join(others)),
            **{name: provenance.get(name, "") for name in columns.CERTIFICATE_PROVENANCE},
            "released": str(provenance.get("released", False)).lower(),
        }


def by_key(rows: Iterable[Certificate]) -> dict[Key, list[Certificate]]:
    """The rows of each certificate in certificates.tsv."""
    return {
        found: list(own)
        for found, own in groupby(rows, lambda row: tuple(value_of(row, k) for k in KEY))
    }


def is_released(row: Mapping[str, Any]) -> bool:
    """Whether it came with the code, and was not made beside what it certifies."""
    return row["released"] == "true"


def first_failed(rows: Sequence[Certificate]) -> Certificate | None:
    """The first tier that did not pass: the one that says what differs."""
    return next((row for row in rows if row["tier_passed"] == "false"), None)


def standing(rows: Sequence[Certificate], made_with: Iterable[tuple[str, ...]]) -> str:
    """What a certificate says of a cell whose records were made with this code and these locks.

    'passed', 'failed', 'missing', 'stale': it passed with another code or lock than a record's, or
    'none': measured elsewhere.
    """
    if not rows:
        return "missing"
    stale = rows[0]["status"] == "passed" and _others(rows[0], made_with)
    return "stale" if stale else rows[0]["status"]


def _others(row: Certificate, made_with: Iterable[tuple[str, ...]]) -> bool:
    """Whether anything was made with another code or lock than the certificate."""
    return bool(set(made_with) - {tuple(value_of(row, key) for key in columns.MADE_WITH)})


def flags(rows: Sequence[Certificate], made_with: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """The flags of such a cell: 'not-equivalent:<tier>[:<tensor>]', 'certificate-stale'."""
    status = standing(rows, ())
    if status == "missing":
        yield f"{NOT_EQUIVALENT}:missing"
        return
    failed = first_failed(rows)
    if failed:
        tensor = "_".join(failed["worst_tensor"].split())  # flags are apart by spaces
        yield ":".join(filter(None, (NOT_EQUIVALENT, failed["tier"], tensor)))
    if _others(rows[0], made_with):
        yield "certificate-stale"


def lines(rows: Sequence[Certificate]) -> Iterator[str]:
    """For a terminal: each certificate in a line, below it the first tier that failed."""
    for own in by_key(rows).values():
        row = own[0]
        layout = f"layout {row['layout']}"
        parts = [labels.implementation(row), row["precision"], row["variant"], layout]
        line = f"{row['status']:<8}{row['workload']} {', '.join(filter(None, parts))}"
        if row["status"] == "missing":
            yield f"{line}: {row['reason']}"
            continue
        not_run = [each["tier"] for each in own if not each["tier_passed"]]
        without = f", without {labels.listed(not_run)}" if not_run else ""
        commit = row["git_commit"][:12] or "not known"
        where = f", on {row['processor']}, from certificates/" if is_released(row) else ""
        yield f"{line}: {row['start_utc'][:10]}, commit {commit}{where}{without}"
        failed = first_failed(own)
        if failed:
            yield f"        {failed['tier']}: {labels.difference(failed)}"
