"""What a recorded call computes: its inputs, its graph, its results."""
