"""A round -> one zip: everything that its report rests on, described as an RO-Crate.

In: a round's folder as it lies there, and of what rounds share its certificates, the manifests of
its data, its environments' env.json and locks. Out: the same bytes for the same files. The crate
(https://w3id.org/ro/crate/1.1) has the sha256 and size of every file. Paths inside are those of a
repository's root, so an archive can be unpacked over a clone.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from dlperf import plan
from dlperf.analysis.audit.findings import OWN
from dlperf.analysis.audit.raw import LINK, raw
from dlperf.analysis.audit.summary import SHOWN
from dlperf.analysis.report import provenance
from dlperf.analysis.round import checksums, labels
from dlperf.analysis.schema.files import AnalysisError
from dlperf.analysis.schema.rows import Measurement, read_measurements
from dlperf.contract import strict_json
from dlperf.contract.files import write
from dlperf.workloads import inputs

ROOT = Path(__file__).parents[4]
CRATE = "ro-crate-metadata.json"
#: Of the repository: who made it, under what terms, and what the analysis itself runs in.
COMMON = ("CITATION.cff", "LICENSE", "envs/workflow.yaml", "envs/workflow.lock.txt")
KINDS = {
    ".cff": "application/yaml",
    ".csv": "text/csv",
    ".gz": "application/gzip",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".tsv": "text/tab-separated-values",
    ".yaml": "application/yaml",
}
#: Of env.json, what says where things were on the machine.
PLACES = ("interpreter", "environ")
# The earliest time that a zip can say: files say nothing of when they were packed.
EPOCH = (1980, 1, 1, 0, 0, 0)
SHA256 = "https://schema.org/sha256"  # younger than the context of RO-Crate 1.1


def archive(folder: Path, out: Path) -> list[str]:
    """Pack the round in `folder` into `out`; returns lines that say what was packed.

    Raises AnalysisError where raw data are not those that the round was merged from, or where it
    was not merged yet.
    """
    config = plan.load(folder / "config.yaml")
    if not (folder / "report.html").exists() or not (folder / checksums.NAME).exists():
        raise AnalysisError(
            f"{folder}: has no {checksums.NAME} or no report.html, so there is nothing to archive "
            "yet; `snakemake --profile local all` makes them"
        )
    wrong = list(raw(folder))
    _refuse_links({each.file: folder / each.file for each in wrong if each.what == LINK})
    if wrong:
        told = "\n".join(f"{folder / each.file}: {each.what}" for each in wrong[:SHOWN])
        raise AnalysisError(
            f"{told}\nThese are not what {checksums.NAME} lists, so nothing was packed. "
            "`snakemake --profile local audit` says more; `all` merges what is there now"
        )
    notes: list[str] = []
    files = dict(_files(folder, config, notes))
    _refuse_links(files)
    contents = {name: _content(path, folder) for name, path in files.items()}
    contents.setdefault(
        f"results/{config.round}/plan.tsv",
        plan_table(config).encode(),
    )
    contents[CRATE] = crate_of(folder, contents)
    packed = _zip(contents)
    write(out, packed)
    return [
        *(f"Note: {note}" for note in [*notes, *_still_named(contents, folder)]),
        f"{out}: {labels.plural(len(contents), 'file')}, {len(packed):,} bytes, "
        f"sha256 {hashlib.sha256(packed).hexdigest()}",
    ]


def plan_table(config: plan.Config) -> str:
    from dlperf.plan.show import tsv

    return tsv(config, plan.expand(config))


def packed_from(root: Path, folder: Path) -> dict[str, Path]:
    """The files that an archive of the round in `folder`, unpacked in `root`, should have."""
    return dict(_files(folder, plan.load(folder / "config.yaml"), [], root))


def crate_of(folder: Path, contents: dict[str, bytes]) -> bytes:
    """ro-crate-metadata.json of an archive with these contents."""
    rows = read_measurements(folder / "measurements.tsv.gz")
    crate = describe(plan.load(folder / "config.yaml"), rows, contents)
    return (json.dumps(crate, indent=1, sort_keys=True) + "\n").encode()


def _refuse_links(files: dict[str, Path]) -> None:
    """Raise AnalysisError where a file would be read through a link: it may lead to anything.

    What lies in results/ may itself be one: people keep data and environments on other disks.
    """
    found = {
        each
        for name, path in files.items()
        for each in [path, *path.parents][: max(1, len(PurePosixPath(name).parts) - 2)]
        if each.is_symlink()
    }
    if found:
        shown = "\n".join(map(str, sorted(found)[:SHOWN]))
        raise AnalysisError(
            f"{shown}\nThese are symbolic links, which may lead anywhere, so nothing was packed. "
            "Put the files themselves there, or remove the links"
        )


def _files(
    folder: Path, config: plan.Config, notes: list[str], repository: Path = ROOT
) -> Iterator[tuple[str, Path]]:
    """(name in the archive, path) of each file; what is asked for and not there goes to `notes`."""
    shared = folder.parent
    cases = [case for case in plan.expand(config) if not case.unsupported]

    def inside(path: Path) -> tuple[str, Path]:
        return f"results/{path.relative_to(shared).as_posix()}", path

    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and path != folder / OWN:
            yield inside(path)
    for name in dict.fromkeys(case.certificate(config.device) for case in cases):
        for path in (shared / name, (shared / name).with_suffix(".log")):
            if path.exists():
                yield inside(path)
    for workload in config.workloads.asked():
        for path in sorted((shared / "certificates" / workload).glob("reference*/manifest.json")):
            yield inside(path)
    for name in dict.fromkeys(each for case in cases for each in inputs.folders(case)):
        path = shared / "data" / name / "manifest.json"
        if path.exists():
            yield inside(path)
        else:
            notes.append(f"{path} is not there")
    for name in config.beside:  # publications; copies of other rounds are in the round's folder
        if "/" in name:
            continue
        for path in sorted((shared / f"imported-{name}").rglob("*")):
            if path.is_file():
                yield inside(path)
    for framework in config.all_frameworks:
        environment = f"{framework}.{config.device}"
        path = shared / "environments" / environment / "env.json"
        if path.exists():
            yield inside(path)
        else:
            notes.append(f"{path} is not there")
        yield from _definition(environment, path, notes, repository)
    for name in COMMON:
        if (repository / name).exists():
            yield name, repository / name


def _definition(
    environment: str, built: Path, notes: list[str], repository: Path
) -> Iterator[tuple[str, Path]]:
    """An environment's YAML and lock, where they are still those that it was built from."""
    document = strict_json.read(built) if built.exists() else {}
    changed = []
    for ending, key in (("yaml", "yaml_sha256"), ("lock.txt", "lock_sha256")):
        name = f"envs/{environment}.{ending}"
        if document.get(key) and checksums.of_file(repository / name) == document[key]:
            yield name, repository / name
        elif document.get(key):
            changed.append(name)
    if changed:
        notes.append(
            f"{labels.listed(changed)} changed since {environment} was built, so not packed; "
            "env.json has every package"
        )


def _content(path: Path, folder: Path) -> bytes:
    """The bytes of a file; logs and env.json without the folders of this machine."""
    content = path.read_bytes()
    if path.suffix == ".log":
        for name, stands_for in _machine(folder):
            content = content.replace(name, stands_for)
    elif path.name == "env.json":
        document = strict_json.parse(content)
        for key in PLACES:
            text = json.dumps(document.get(key)).encode()
            for name, stands_for in _machine(folder):
                text = text.replace(name, stands_for)
            document[key] = json.loads(text)
        content = (json.dumps(document, indent=1) + "\n").encode()
    return content


def _machine(folder: Path) -> list[tuple[bytes, bytes]]:
    """Folders that say whose machine it was, and what stands for them in an archive."""
    root, home = folder.resolve().parent.parent, Path.home()
    found = [(f"{root}/".encode(), b""), (f"{home}/".encode(), b"~/")]
    return [(name, stands_for) for name, stands_for in found if len(name) > 1]


def _still_named(contents: dict[str, bytes], folder: Path) -> Iterator[str]:
    """Files that are packed as they are, and name a folder of this machine."""
    named = [
        name
        for name, content in contents.items()
        if any(each in content for each, _ in _machine(folder))
    ]
    if named:
        yield (
            f"{labels.plural(len(named), 'file')} packed as they are name folders of this "
            f"machine: {labels.listed(named[:5])}{', …' if len(named) > 5 else ''}"
        )


def describe(
    config: plan.Config, rows: list[Measurement], contents: dict[str, bytes]
) -> dict[str, Any]:
    """ro-crate-metadata.json: the round, its files, and the run of the workflow that made them."""
    from rocrate.model.contextentity import ContextEntity
    from rocrate.rocrate import ROCrate

    citation = yaml.safe_load(contents["CITATION.cff"])
    name = f"results/{config.round}"
    start, end = provenance.period(rows)
    ok = sum(row["status"] == "ok" for row in rows)
    crate = ROCrate(version="1.1")
    crate.metadata.extra_terms["sha256"] = SHA256

    def add(identifier: str, **properties: Any) -> Any:
        return crate.add(ContextEntity(crate, identifier, properties=properties))

    licence = add(
        f"https://spdx.org/licenses/{citation['license']}",
        **{"@type": "CreativeWork", "name": citation["license"]},
    )
    authors = [
        add(
            f"#author-{number}",
            **{"@type": "Person" if "family-names" in author else "Organization"},
            name=author.get("name")
            or f"{author.get('given-names', '')} {author['family-names']}".strip(),
        )
        for number, author in enumerate(citation["authors"], start=1)
    ]
    commits = sorted({row["git_commit"] for row in rows if row["git_commit"]})
    software = add(
        "#dlperf",
        **{"@type": "SoftwareApplication", "name": "dlperf", "license": licence},
        description=citation["title"],
        version=f"{citation['version']} (commit {labels.listed(commits) or 'not known'})",
    )
    files = {
        each: crate.add_file(
            None,
            each,
            properties={
                "encodingFormat": _kind(each),
                "contentSize": str(len(content)),
                "sha256": hashlib.sha256(content).hexdigest(),
            },
        )
        for each, content in sorted(contents.items())
    }
    asked = [
        each
        for each in files
        if each == f"{name}/config.yaml" or each.startswith(("envs/", "results/data/"))
    ]
    made = [
        each
        for each in files
        if each.startswith(f"{name}/") and "/logs/" not in each and each not in asked
    ]
    run = add(
        "#round",
        **{"@type": "CreateAction", "name": f"Round {config.round}"},
        description=f"{ok} of {len(rows)} repetitions ended ok.",
        instrument=software,
        agent=authors,
        object=[files[each] for each in asked],
        result=[files[each] for each in made],
        actionStatus="http://schema.org/CompletedActionStatus",
        **({"startTime": _iso(start), "endTime": _iso(end)} if start else {}),
    )
    root = crate.root_dataset
    root["name"] = f"Round {config.round}: speed of deep-learning frameworks"
    root["description"] = (
        f"Records, logs, certificates, tables, figures and report of a benchmark of "
        f"{labels.plural(len(config.all_frameworks), 'framework')} on "
        f"{labels.listed(list(config.workloads.asked()))}. Records name the hosts that they were "
        "measured on."
    )
    root["license"], root["author"] = licence, authors
    root["keywords"] = ", ".join(citation["keywords"])
    # not when it was packed: the same round is the same archive
    root["datePublished"] = _iso(end) if end else citation["date-released"]
    root["mentions"] = run
    root["mainEntity"] = files[f"{name}/report.html"]
    return crate.metadata.generate()


def _iso(utc: str) -> str:
    """'2026-11-21 05:00:00' -> '2026-11-21T05:00:00+00:00'."""
    return f"{utc.replace(' ', 'T')}+00:00"


def _kind(name: str) -> str:
    return KINDS.get(Path(name).suffix, "text/plain")


def _zip(contents: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as made:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            entry.external_attr = 0o644 << 16
            made.writestr(entry, contents[name])
    return packed.getvalue()
