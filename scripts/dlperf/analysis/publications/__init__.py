"""Published tables and raw repetitions from elsewhere, as rounds of their own.

CSV (config/published/, or docs/importing.md's format) -> records of kind `imported` -> the same
measurements, cells, tables and figures as a measured round has. They never mix: an imported round's
name says so (`imported-…`), its records have a schema of their own (dlperf.imported/1), and a
measured round refuses them.
"""
