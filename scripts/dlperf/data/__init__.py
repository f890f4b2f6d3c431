"""What the workloads read: the sample set of real photographs and the batches made from it."""
