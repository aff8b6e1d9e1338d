"""A pure pipeline: a recorded function becomes a Graph, kernels and a Program."""

if __name__ == "compiler":
    # In a checkout the folder itself is in reach; importing it by this name would make a second copy of every class.
    raise ImportError("import eagerjit.compiler instead of compiler")
