"""Meta's accelerators: there are none, and what would tidy up after them does nothing."""

from eagerjit.cuda import empty_cache, synchronize
from eagerjit.mps import device_count, is_available, manual_seed

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]
