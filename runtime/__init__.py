"""Bytes, threads, devices and launches. This layer never sees a Graph."""

if __name__ == "runtime":
    # In a checkout the folder itself is in reach; importing it by this name would make a second copy of every class.
    raise ImportError("import eagerjit.runtime instead of runtime")
