"""The modes of the running thread, as native code reads them."""

from __future__ import annotations

from eagerjit.runtime.native.context import FLAGS_KEY, context
from eagerjit.runtime.native.language import external, i64, load_i64, load_ptr

PyThread_tss_get = external("ptr PyThread_tss_get(ptr)")


def thread_flags() -> i64:
    """This thread's modes: the word that Python keeps for it, or none."""
    word = PyThread_tss_get(load_ptr(context, FLAGS_KEY))
    if word == 0:
        return 0
    return load_i64(word, 0)
