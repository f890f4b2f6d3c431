"""Every link of the pages leads to a file, and to a heading, that is there."""

import re
from pathlib import Path

import pytest
from conftest import ROOT

PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "config/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """As GitHub names headings: lower case, without punctuation, hyphens for spaces."""
    return {
        re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-")
        for title in HEADING.findall(page.read_text())
    }


def broken(page: Path) -> list[str]:
    found = []
    for link in LINK.findall(page.read_text()):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    assert not broken(page)


def test_a_link_to_nothing_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A title, of `code`\n[a](#a-title-of-code) [b](#b) [c](none.md) [d](page.md#e)"
    )
    assert broken(page) == ["#b", "none.md", "page.md#e"]
