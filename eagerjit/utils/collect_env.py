"""What eagerjit runs on, as text: what `python -m eagerjit env` prints."""

from __future__ import annotations

from eagerjit.__main__ import environment


def get_pretty_env_info() -> str:
    """Versions, processor, BLAS, native execution, cache."""
    return environment()


def main() -> None:
    """Print them."""
    print(get_pretty_env_info())
