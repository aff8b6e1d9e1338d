"""From a Graph to kernels and the Program that launches them."""
