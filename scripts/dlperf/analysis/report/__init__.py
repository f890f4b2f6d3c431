"""Cells -> tables, figures and the page, of measured rounds and of published ones."""

import os

# A figure names its canvas. Matplotlib ends at a word that is no backend, which a user may have set
# for another version of it.
os.environ.pop("MPLBACKEND", None)
