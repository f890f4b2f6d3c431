"""Parts of benchmarks/first_gpu.py: what is run on a card, how it is watched, and its table."""
