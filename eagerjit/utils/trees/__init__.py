"""Nested data: which containers there are, how data is nested, and texts that say it (`torch.utils._pytree`)."""
