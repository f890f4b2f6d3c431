"""From raw records to medians, tables, figures and the report.

In: results/<round>/config.yaml and runs/. Out, in this order: measurements.tsv.gz and parity.tsv
(merge), cells.tsv (cells), tables/, figures/, report.html. Nothing here needs a framework or a GPU,
and the same records always give the same bytes.
"""
