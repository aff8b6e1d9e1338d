"""How the library was built: it was not; what it runs on."""

from __future__ import annotations


def show() -> str:
    r"""Versions, processor and BLAS, as \`python -m eagerjit env\` prints them."""
    from eagerjit.__main__ import environment

    return environment()


def parallel_info() -> str:
    """The number of threads."""
    from eagerjit.runtime import threads

    return f"eagerjit.get_num_threads(): {threads.get_num_threads()}\n"
