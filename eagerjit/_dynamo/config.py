"""Settings of PyTorch's compiler: they may be set, and change nothing."""

suppress_errors = verbose = capture_scalar_outputs = False
automatic_dynamic_shapes = True
cache_size_limit = recompile_limit = 8
