"""The stopwatch: starts the ranks of one repetition, times them, writes one record.

Runs under every framework's interpreter: Python 3.7 syntax, standard library and NumPy only.
"""
