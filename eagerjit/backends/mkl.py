"""Intel's MKL: products are OpenBLAS's."""


def is_available() -> bool:
    """False."""
    return False
