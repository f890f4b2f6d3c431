"""From raw records to medians, tables, figures and the report.

In: results/<round>/config.yaml and runs/. Out, in this order: measurements.tsv.gz and parity.tsv
(merge), cells.tsv (cells), tables/, figures/, report.html. Nothing here needs a framework or a GPU,
and the same records always give the same bytes.

A package imports from those that stand before it, never from those after it:

    schema        columns of tables, their rows as types, TSV files, JSON schemas
    frames        a round's tables as pandas DataFrames, for scripts of your own
    statistics    medians with intervals, ranks, permutation tests
    logs          logs of public training scripts -> rows of tidy CSV
    publications  published tables and tidy CSV -> records of imported rounds
    round         records, certificates -> measurements -> cells
    report        cells -> tables, figures, the page
    compare       two rounds -> their comparison; figures of others beside a round -> verdicts
    steps         all of these as a list: inputs, outputs, function; rules, commands and the audit
                  take theirs from it
    audit         a round against its raw records; archives
    commands      what commands say beside calling a step's function
"""
