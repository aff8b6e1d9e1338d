"""OpenMP: threads are the library's own."""


def is_available() -> bool:
    """False."""
    return False
