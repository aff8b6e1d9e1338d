"""How exactly tensor cores multiply factors of float32."""

from __future__ import annotations


class Precision:
    """`name` as PyTorch has it: "highest" is exact; "high" and "medium" allow TF32, 10 bits of the fraction."""

    name = "highest"

    @property
    def tf32(self) -> bool:
        """Whether factors may be rounded to TF32."""
        return self.name != "highest"


precision = Precision()
"""Asked by every launch, so that no compiled call holds on to what it was."""
