"""Names of `torch._inductor`: its settings."""

from eagerjit._inductor import config

__all__ = ["config"]
