"""What a round's machines can do, and how steady they were: limits, calibrated nodes, noise."""
