"""Names of `torch.fx.experimental.proxy_tensor`: nothing traces through tensors' dispatch."""


def get_proxy_mode() -> None:
    """None: no such mode is ever on."""
