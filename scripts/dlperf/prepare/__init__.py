"""From a download, or a sample that comes with packages, to shards and their manifest."""
