"""What a command prints is UTF-8, whatever the locale: names and units are not ASCII everywhere.

Runs under every framework's interpreter: Python 3.7, standard library only.
"""

import sys


def as_utf8():
    """Let this process print UTF-8: an ASCII or Latin-1 locale would end it at the first '…'."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # not where somebody put another object in its place
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
