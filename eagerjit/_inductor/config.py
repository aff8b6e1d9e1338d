"""Settings of PyTorch's code generator: they may be set, and change nothing."""

from types import SimpleNamespace

coordinate_descent_tuning = max_autotune = False
fx_graph_cache = True
triton = SimpleNamespace(unique_kernel_names=False, cudagraphs=False)
