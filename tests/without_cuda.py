"""What PyTorch answers where it is built without CUDA, as ours does where no GPU is: on record for other builds.

An installation from the usual index has CUDA, and says otherwise that there is no device. With the build that has none
the record is compared; EAGERJIT_UPDATE_TABLES=1 writes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

RECORD = Path(__file__).resolve().parent / "data" / "torch_without_cuda.json"


def answer(function: Callable[[Any], Any], module: Any) -> str:
    """What a function gives with a module, as text, or the name of its error's class."""
    try:
        return repr(function(module))
    except Exception as error:
        return type(error).__name__


def expected(name: str, function: Callable[[Any], Any], module: Any = torch) -> str:
    """PyTorch's answer, from the record where it is built with CUDA."""
    record = json.loads(RECORD.read_text())
    if torch.version.cuda is not None:
        return str(record[name])
    found = answer(function, module)
    if os.environ.get("EAGERJIT_UPDATE_TABLES"):
        RECORD.write_text(json.dumps(dict(sorted((record | {name: found}).items())), indent=0) + "\n")
    else:
        assert record[name] == found, "run this test with EAGERJIT_UPDATE_TABLES=1"
    return found
