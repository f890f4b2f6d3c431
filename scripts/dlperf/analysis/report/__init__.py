"""Cells -> tables, figures and the page, of measured rounds and of published ones."""
