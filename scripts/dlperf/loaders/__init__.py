"""What a rank reads while it trains: batches, shards, each framework's own readers.

Shapes, formats and files; no workload by name. Beside a framework: Python 3.7 and NumPy.
"""


class DataError(ValueError):
    """A mistake in the data or in what was asked of it; the message says how to fix it."""
