"""TorchScript's types, which annotations and checks name: nothing has one, as nothing is scripted."""

from __future__ import annotations


class JitType:
    """A type of TorchScript's."""


Type = JitType
NAMES = tuple(f"{kind}Type" for kind in (
    "Any Bool Class Complex DeviceObj Dict Enum Float Future Int Interface List None Number Optional PyObject "
    "StreamObj String Tensor Tuple Union"
).split())  # fmt: skip
globals().update({name: type(name, (JitType,), {"__module__": __name__}) for name in NAMES})
