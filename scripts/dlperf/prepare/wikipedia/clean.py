"""Makes sentences of prose from wikitext, without templates, tables, lists, references or headings.

wikiextractor removes the markup (3.1.0 is the first release that Python 3.11 can import), and
Wikimedia's own sentencex finds the sentences. docs/data.md compares them with others.
"""

import html
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.sax.saxutils import escape

import sentencex
from wikiextractor.clean import clean_markup

# Processor time. Articles take milliseconds, and the longest one second. Hostile text (thousands of
# tags without an end) would take hours. The difference is so large that every machine skips the
# same articles.
LIMIT_SECONDS = 60.0


class TooHard(Exception):
    """An article that cannot be cleaned in LIMIT_SECONDS."""


def sentences(wikitext: str, language: str) -> list[str]:
    """The sentences of an article. Call it in the main thread, because it sets a time limit."""
    with limit(LIMIT_SECONDS):
        found = paragraphs(wikitext)
    return [
        sentence
        for paragraph in found
        for each in sentencex.segment(language, paragraph)
        if (sentence := each.strip())
    ]


def paragraphs(wikitext: str) -> list[str]:
    # It expects text that is still escaped as in the dump's XML, and escapes its result for HTML.
    found = clean_markup(escape(wikitext, {'"': "&quot;"}))
    return [html.unescape(paragraph) for paragraph in found]


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raises TooHard after so many seconds of processor time, within regular expressions too.

    It is not the time of the clock, because a busy machine must skip the same articles as a quiet
    one.
    """

    def stop(*_: Any) -> None:
        raise TooHard

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
