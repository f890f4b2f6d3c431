"""What the workloads made of transformer layers share: their optimiser and plain formulas."""
