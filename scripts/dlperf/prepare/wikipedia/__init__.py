"""Makes examples for BERT's pre-training, in shards, from a dump of Wikipedia."""
