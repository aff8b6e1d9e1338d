"""A pure pipeline: a recorded function becomes a Graph, kernels and a Program."""
