"""What the analysis reads and writes: columns of tables, TSV files, JSON schemas of records."""
