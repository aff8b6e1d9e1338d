"""Bytes, threads, devices and launches. This layer never sees a Graph."""
