"""What the workloads made of transformer layers share, of their facts, proofs and references."""
