"""Intel's GPUs: there are none, and what would tidy up after them does nothing."""

from eagerjit.cuda import device_count, empty_cache, is_available, manual_seed, synchronize

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]
