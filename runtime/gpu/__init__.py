"""NVIDIA GPUs: the driver through ctypes, memory, streams, graphs and launches. Nothing is loaded before it is needed."""
