"""NVIDIA GPUs: the driver through ctypes, memory, streams, graphs, launches. Nothing is loaded before it is needed."""
