"""`torch.PyTorchFileReader`: the records of a saved file as bytes."""

from __future__ import annotations

import zipfile
from typing import Any


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
