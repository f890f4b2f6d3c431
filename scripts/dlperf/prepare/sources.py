"""Where data sets come from: the models of config/data.yaml, which describe every key.

The input is `config/data.yaml`. The output is a `Source` for each name, or a `ConfigError` that
lists everything that is wrong. `config/data.schema.json` is generated from these models (`python -m
dlperf.prepare.sources schema`).
"""

import argparse
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from dlperf.contract import terminal
from dlperf.contract.choices import Pattern, Section
from dlperf.contract.files import write_if_changed
from dlperf.contract.problems import ConfigError, Problem, explain, key_path, read_yaml, repeated

#: Checksums that a file may have, the strongest first. md5 and sha1 find damage, but not forgery.
ALGORITHMS = ("sha256", "sha1", "md5")
UNKNOWN = "unknown"
SECRET_QUERY = re.compile(r"sig|token|key|secret|passw|credential|auth", re.IGNORECASE)

SourceName = Annotated[
    str, Pattern("a word of letters, digits, '.', '_' and '-'", r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
]
FileName = Annotated[
    str,
    Pattern(
        "a path inside the source's folder, without '..'",
        r"(?!.*\.part$)[A-Za-z0-9_][A-Za-z0-9._+-]*(/[A-Za-z0-9_][A-Za-z0-9._+-]*)*",
    ),
]
Address = Annotated[
    str,
    Pattern(
        "an address: http://, https://, s3://<bucket>/<key>, file:///<path>, or env:<variable>",
        r"(https?://[^\s/?#@]+/[^\s#]*|s3://[^\s/?#@]+/[^\s?#]+|file:///[^\n]+"
        r"|env:[A-Za-z_][A-Za-z0-9_]*)",
    ),
]
Variable = Annotated[str, Pattern("the name of an environment variable", r"[A-Za-z_][A-Za-z0-9_]*")]
Header = Annotated[str, Pattern("the name of an HTTP header", r"[A-Za-z0-9-]+")]
Host = Annotated[
    str, Pattern("a host, such as data.example.org or localhost:8080", r"[A-Za-z0-9.-]+(:[0-9]+)?")
]


def _digest(length: int, *others: str) -> Pattern:
    words = "".join(f", or the word '{word}'" for word in others)
    alternatives = "|".join([f"[0-9a-f]{{{length}}}", *others])
    return Pattern(f"{length} digits of 0-9 and a-f{words}", f"({alternatives})")


class File(Section):
    """One file of a source."""

    name: FileName = Field(
        description="Its name in the source's folder; it may have folders in it.",
        examples=["train.tar", "images/train.tar"],
    )
    addresses: list[Address] = Field(
        default=[],
        description="Its mirrors, in the order in which they are tried: `http(s)://`, `s3://`, "
        "`file:///`, or `env:NAME`, an environment variable with an address that is itself a "
        "secret, such as a signed one.",
        examples=[["https://example.org/train.tar", "s3://bucket/train.tar"]],
    )
    bytes: int | None = Field(
        default=None, ge=0, description="Its size in bytes, if it is published.", examples=[231508]
    )
    sha256: Annotated[str, _digest(64, UNKNOWN)] | None = Field(
        default=None,
        description="Its SHA-256; `unknown` if no checksum of any kind is published.",
        examples=["unknown"],
    )
    sha1: Annotated[str, _digest(40)] | None = Field(
        default=None, description="Its SHA-1, if the publisher gives that."
    )
    md5: Annotated[str, _digest(32)] | None = Field(
        default=None, description="Its MD5, if the publisher gives that."
    )

    @property
    def checksums(self) -> dict[str, str]:
        """The known checksums by algorithm, the strongest first. Empty if none is known."""
        given = {name: getattr(self, name) for name in ALGORITHMS}
        return {name: value for name, value in given.items() if value not in (None, UNKNOWN)}

    @model_validator(mode="after")
    def _checksum_or_unknown(self) -> "File":
        if not self.checksums and self.sha256 != UNKNOWN:
            raise PydanticCustomError(
                "checksum",
                "has no checksum: give `sha256`, `sha1` or `md5`, or say `sha256: unknown`",
            )
        return self


class Credentials(Section):
    """What a server asks for. The values come only from the environment."""

    hosts: list[Host] = Field(
        min_length=1,
        description="Hosts that they are sent to, by https only. They are not sent to any other "
        "host, even after a redirect.",
        examples=[["data.example.org"]],
    )
    user: Variable | None = Field(
        default=None, description="Variable with the user's name.", examples=["IMAGENET_USER"]
    )
    password: Variable | None = Field(
        default=None, description="Variable with the password.", examples=["IMAGENET_PASSWORD"]
    )
    header: Header | None = Field(
        default=None,
        description="A header to send instead of user and password.",
        examples=["Authorization"],
    )
    value: Variable | None = Field(
        default=None, description="Variable with the header's value.", examples=["DATA_TOKEN"]
    )

    @property
    def variables(self) -> list[str]:
        """The names of the variables that hold them."""
        return [name for name in (self.user, self.password, self.value) if name]

    @model_validator(mode="after")
    def _one_way(self) -> "Credentials":
        given = [name for name in ("user", "password", "header", "value") if getattr(self, name)]
        if given not in (["user", "password"], ["header", "value"]):
            raise PydanticCustomError(
                "credentials", "needs `user` and `password`, or `header` and `value`, of these four"
            )
        return self


class Source(Section):
    """A data set as its publisher provides it."""

    title: str = Field(min_length=1, description="What it is.", examples=["SQuAD v1.1"])
    licence: str = Field(
        min_length=1, description="What may be done with it.", examples=["CC BY-SA 4.0"]
    )
    access: str = Field(min_length=1, description="How to get access to it.", examples=["public"])
    local: str | None = Field(
        default=None,
        min_length=1,
        description="A folder that already has the files; they are checked and linked.",
        examples=["/datasets/imagenet"],
    )
    credentials: Credentials | None = Field(
        default=None, description="The user and password, or the header, that its servers ask for."
    )
    files: list[File] = Field(min_length=1, description="Its files.")


class Images(Section):
    """A set of images that is kept in shards, in each framework's own format."""

    source: SourceName | None = Field(
        default=None,
        description="The source whose first file is the archive. If there is none, the set is made "
        "on this machine.",
        examples=["imagenet-train"],
    )
    shards: int = Field(
        ge=1,
        description="How many files: more than ranks, and of about 100 MB each.",
        examples=[1024],
    )
    labels: str | None = Field(
        default=None,
        description="The file of the source that has the images' classes, if the archive has no "
        "class folders. Images then keep their order.",
        examples=["ILSVRC2012_devkit_t12.tar.gz"],
    )


class Text(Section):
    """A corpus that is kept as documents, and as examples for each sequence length."""

    source: SourceName | None = Field(
        default=None,
        description="The source whose first file is the dump. If there is none, the set is made on "
        "this machine.",
        examples=["wikipedia"],
    )
    vocabulary: SourceName | None = Field(
        default=None,
        description="The source whose first file is the WordPiece vocabulary.",
        examples=["bert-vocabulary"],
    )
    shards: int = Field(
        ge=1, description="How many files of documents, and of examples.", examples=[512]
    )
    duplicates: int = Field(
        ge=1,
        description="How often each document is used, each time with other masks.",
        examples=[5],
    )


class Clicks(Section):
    """Rows in Criteo's form, which are kept as numbers and ids."""

    source: SourceName | None = Field(
        default=None,
        description="The source whose first file has the rows: train.txt, a day of the terabyte "
        "set, either of them compressed by gzip, or the challenge's archive. If there is none, the "
        "set is made on this machine.",
        examples=["criteo-kaggle"],
    )
    shards: int = Field(
        ge=1,
        description="How many files of rows to train on; a sixth as many have those to test with.",
        examples=[256],
    )


class Questions(Section):
    """Questions on paragraphs, in SQuAD's form, which are kept as tokens."""

    source: SourceName = Field(
        description="The source whose first file is to train on, and whose second to test with.",
        examples=["squad-1.1"],
    )
    vocabulary: SourceName = Field(
        description="The source whose first file is the WordPiece vocabulary.",
        examples=["bert-vocabulary"],
    )
    weights: SourceName | None = Field(
        default=None,
        description="The source whose first file has the weights that training starts from. If "
        "there is none, they are random, and the scenario `quality` is refused.",
        examples=["electra-base"],
    )


class Tokens(Section):
    """Token ids, in Megatron-LM's form or as flat uint16, which are checked and linked."""

    source: SourceName | None = Field(
        default=None,
        description="The source whose first file has the tokens (.bin). An index (.idx) is a "
        "second file of the same name.",
        examples=["my-tokens"],
    )
    file: str | None = Field(
        default=None,
        min_length=1,
        description="The file that has the tokens (.bin), in place of a source. An index (.idx) "
        "stands beside it.",
        examples=["/datasets/openwebtext/train.bin"],
    )
    vocabulary_size: int = Field(
        default=51200,
        ge=1,
        le=2**31 - 1,
        description="Every token has to be below this number; the model has 51,200 entries.",
        examples=[50257],
    )

    @model_validator(mode="after")
    def _one_origin(self) -> "Tokens":
        if (self.source is None) == (self.file is None):
            raise PydanticCustomError("origin", "needs `source` or `file`, one of the two")
        return self


class Prepared(Section):
    """What the workflow makes from sources."""

    images: dict[SourceName, Images] = Field(default={}, description="Sets of images by name.")
    text: dict[SourceName, Text] = Field(default={}, description="Corpora by name.")
    clicks: dict[SourceName, Clicks] = Field(
        default={}, description="Sets of rows of clicks by name."
    )
    questions: dict[SourceName, Questions] = Field(
        default={}, description="Sets of questions on paragraphs by name."
    )
    tokens: dict[SourceName, Tokens] = Field(
        default={}, description="Corpora of token ids by name; `data: tokens` reads `tokens`."
    )


class Sources(Section):
    """All sources, and what is made from them."""

    sources: dict[SourceName, Source] = Field(description="The sources by name.")
    prepared: Prepared = Field(
        default=Prepared(),
        description="What the workflow makes from them, for the key `data` of a round.",
    )


def load(path: Path) -> dict[str, Source]:
    """The sources of a file such as config/data.yaml, by name.

    Raises ConfigError, which lists every problem.
    """
    return load_all(path).sources


def load_all(path: Path) -> Sources:
    """The whole file. Raises ConfigError, which lists every problem."""
    data = read_yaml(path, str(path))
    # Secrets are masked first, so that no message can show one.
    problems = [*repeated(data), *_secrets(data), *_same_names(data)]
    try:
        valid = Sources.model_validate(_without_secrets(data))
    except ValidationError as error:
        problems = explain(error, Sources) + problems
    else:
        problems += _missing(valid)
    if problems:
        raise ConfigError(str(path), problems)
    return valid


def choose(sources: Mapping[str, Source], name: str, path: Path) -> Source:
    """The source of that name. Raises ConfigError with the nearest name."""
    if name not in sources:
        nearest = "".join(difflib.get_close_matches(name, list(sources), 1, 0.6))
        message = "is not a source of this file"
        raise ConfigError(
            str(path), [Problem("--source", repr(name), message, tuple(sources), nearest)]
        )
    return sources[name]


def masked(address: str) -> str:
    """An address without its user, password and query: what logs, records and messages show."""
    if address.startswith("env:") or "://" not in address:
        return address
    try:
        parts = urlsplit(address)
        query = "***" if parts.query else ""
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))
    except ValueError:
        return address.partition("://")[0] + "://***"


@dataclass(frozen=True)
class Estimate:
    """What fetching takes, in bytes; `unknown` names files whose size is not known."""

    to_download: int
    disk_needed: int
    there: tuple[str, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]


def estimate(source: Source, folder: Path) -> Estimate:
    """Which files of a source are in `folder` (by name and size; nothing is read)."""
    there, missing, unknown, rest = [], [], [], 0
    for file in source.files:
        target, part = folder / file.name, folder / f"{file.name}.part"
        if target.is_file() and file.bytes in (None, target.stat().st_size):
            there.append(file.name)
            continue
        missing.append(file.name)
        if source.local:
            continue
        if file.bytes is None:
            unknown.append(file.name)
            continue
        rest += max(0, file.bytes - (part.stat().st_size if part.is_file() else 0))
    return Estimate(rest, rest, tuple(there), tuple(missing), tuple(unknown))


def json_schema() -> str:
    """The JSON schema of config/data.yaml, as text."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Sources.model_json_schema(),
    }
    return json.dumps(schema, indent=2) + "\n"


def _strings(data: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple, str]]:
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(data, Mapping):
        items = data.items()
    elif isinstance(data, list):
        items = enumerate(data)
    elif isinstance(data, str):
        yield place, data
    for key, value in items:
        yield from _strings(value, (*place, key))


def _has_secret(text: str) -> bool:
    if "://" not in text or text.startswith("file:"):
        return False
    try:
        parts = urlsplit(text)
        names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    except ValueError:
        return True
    return "@" in parts.netloc or any(map(SECRET_QUERY.search, names))


def _missing(valid: Sources) -> Iterator[Problem]:
    """What `prepared` names although it does not exist, or does not name although it must."""
    for kind in ("images", "text", "clicks", "questions", "tokens"):
        for name, made in getattr(valid.prepared, kind).items():
            for key in ("source", "vocabulary", "weights"):
                source = getattr(made, key, None)
                if source is not None and source not in valid.sources:
                    nearest = "".join(difflib.get_close_matches(source, valid.sources, 1, 0.4))
                    yield Problem(
                        f"prepared.{kind}.{name}.{key}",
                        repr(source),
                        "is not a source of this file",
                        tuple(valid.sources),
                        nearest,
                    )
    for name, corpus in valid.prepared.text.items():
        if corpus.source is not None and corpus.vocabulary is None:
            yield Problem(
                f"prepared.text.{name}.vocabulary",
                "",
                "is missing; a corpus with a source needs one",
                tuple(valid.sources),
            )


def _secrets(data: Any) -> Iterator[Problem]:
    for place, text in _strings(data):
        if _has_secret(text):
            yield Problem(
                key_path(place),
                masked(text),
                "holds a user, a password or a signature; put the address into an environment "
                "variable and write `env:<its name>`, or name variables under `credentials`",
            )


def _without_secrets(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _without_secrets(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_without_secrets(value) for value in data]
    return masked(data) if isinstance(data, str) and _has_secret(data) else data


def _same_names(data: Any) -> Iterator[Problem]:
    """Files of a source that have the same name."""
    sources = data.get("sources")
    for source, section in sources.items() if isinstance(sources, Mapping) else ():
        files = section.get("files") if isinstance(section, Mapping) else None
        names = [
            file.get("name") if isinstance(file, Mapping) else None
            for file in (files if isinstance(files, list) else ())
        ]
        for index, name in enumerate(names):
            if name is not None and name in names[:index]:
                key = f"sources.{source}.files[{index}].name"
                yield Problem(key, repr(name), "is the name of an earlier file of this source")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m dlperf.prepare.sources", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    text = "write config/data.schema.json from the models"
    command = commands.add_parser("schema", help=text, description=text)
    command.add_argument("--out", type=Path, default=Path("config/data.schema.json"))
    asked = parser.parse_args(arguments)
    if write_if_changed(asked.out, json_schema()):
        print(f"wrote {asked.out}")


if __name__ == "__main__":
    terminal.as_utf8()
    main()
