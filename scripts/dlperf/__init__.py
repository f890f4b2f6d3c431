"""Benchmarks of deep-learning frameworks: plan, measure, certify, and turn records into tables."""
