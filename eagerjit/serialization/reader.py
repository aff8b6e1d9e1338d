"""What a saved file holds, without loading it: its records as bytes, and what of it `load` refuses."""

from __future__ import annotations

import pickletools
import zipfile
from typing import Any

from eagerjit.serialization.known import Known
from eagerjit.serialization.unpickle import LoadError, name_of_python_3


class PyTorchFileReader:
    """Reads what a file that `save` wrote, a ZIP archive, holds under each name."""

    def __init__(self, file: Any):
        self._archive = zipfile.ZipFile(file)
        self._folder = self._archive.namelist()[0].partition("/")[0]

    def get_all_records(self) -> list[str]:
        """The names."""
        return [name.partition("/")[2] for name in self._archive.namelist()]

    def has_record(self, name: str) -> bool:
        """Whether there is a record of a name."""
        return name in self.get_all_records()

    def get_record(self, name: str) -> bytes:
        """The bytes under a name. Raises RuntimeError where there are none."""
        if not self.has_record(name):
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found")
        return self._archive.read(f"{self._folder}/{name}")


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """What a file that `save` wrote names and `load(weights_only=True)` does not give. Raises ValueError for others."""
    if not zipfile.is_zipfile(f):
        raise ValueError("Expected input to be a checkpoint returned by torch.save")
    pickled = PyTorchFileReader(f).get_record("data.pkl")
    named = {str(argument) for code, argument, _ in pickletools.genops(pickled) if code.name == "GLOBAL"}
    known = Known(trusted=False)
    unsafe = []
    for both in sorted(named):
        module, name = name_of_python_3(*both.split(" ", 1))
        try:
            known.find(module, name)
        except LoadError:
            unsafe.append(f"{module}.{name}")
    return unsafe
