"""opt_einsum: not used; einsum has an order of its own. Its switches can be set."""

enabled = False
strategy = None


def is_available() -> bool:
    """False."""
    return False
