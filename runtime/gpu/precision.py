"""How exactly tensor cores multiply factors of float32."""

from __future__ import annotations

from eagerjit.runtime import mode


class Precision:
    """`name` as PyTorch has it: "highest" is exact; "high" and "medium" allow TF32, 10 bits of the fraction."""

    _name = "highest"

    @property
    def name(self) -> str:
        """What was chosen last."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name
        mode.words[mode.PRECISION_WORD] = name != "highest"

    @property
    def tf32(self) -> bool:
        """Whether factors may be rounded to TF32."""
        return self._name != "highest"


precision = Precision()
"""Asked by every launch, so that no compiled call holds on to what it was."""
