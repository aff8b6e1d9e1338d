"""`python -m eagerjit run` gives a program eagerjit for its torch, in all of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, text: str, *arguments: str, command: str = "run") -> subprocess.CompletedProcess[str]:
    """Write a program and run it (or another command on it)."""
    script = folder / "program.py"
    script.write_text(text)
    call = [sys.executable, "-m", "eagerjit", command, str(script), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(call, env=environment, capture_output=True, text=True, cwd=folder, timeout=120)


def printed(folder: Path, text: str, *arguments: str) -> list[str]:
    """The lines that a program prints; it must succeed."""
    result = run(folder, text, *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


IMPORTS = """
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim.lr_scheduler as schedules
from torch import Tensor, optim
from torch.nn.modules.module import Module
from torch.nn.parameter import Parameter
from torch.optim.optimizer import Optimizer
import eagerjit

assert torch is eagerjit and nn is eagerjit.nn and F is eagerjit.nn.functional and optim is eagerjit.optim
assert Module is nn.Module and Parameter is nn.Parameter and Optimizer is optim.Optimizer and torch.nn is nn
assert schedules is eagerjit.optim.lr_scheduler and Tensor is eagerjit.Tensor
assert eagerjit.nn.__spec__.name == "eagerjit.nn" and eagerjit.__spec__.name == "eagerjit"
print(sys.argv[1:], __name__, torch.__version__.split("+")[0])
"""


def test_modules_are_eagerjits_own(tmp_path: Path) -> None:
    assert printed(tmp_path, IMPORTS, "-x", "1") == ["['-x', '1'] __main__ 2.13.0"]


FILES = """
import torch
from safetensors.torch import load, save

print(load(save({"a": torch.ones(2)})))
"""


def test_safetensors_are_read_without_torch(tmp_path: Path) -> None:
    assert printed(tmp_path, FILES) == ["{'a': tensor([1., 1.])}"]


MISSING = """
import torch
for attempt in (lambda: torch.flattn, lambda: torch.nn.Liner, lambda: torch.nn.functional.reluu,
                lambda: torch.optim.Adamm, lambda: torch.qqqqqqqq):
    try:
        attempt()
    except AttributeError as error:
        print(error)
for text in ("import torch.nothing.at.all", "from torch import nothing"):
    try:
        exec(text)
    except ImportError as error:
        print(error)
print(hasattr(torch, "relu"), hasattr(torch, "no_such_name"))
"""


def test_missing_names_come_with_the_nearest(tmp_path: Path) -> None:
    lines = printed(tmp_path, MISSING)
    assert lines[:6] == [
        "eagerjit has no torch.flattn; the nearest name it has is torch.flatten",
        "eagerjit has no torch.nn.Liner; the nearest name it has is torch.nn.Linear",
        "eagerjit has no torch.nn.functional.reluu; the nearest name it has is torch.nn.functional.relu",
        "eagerjit has no torch.optim.Adamm; the nearest name it has is torch.optim.Adam",
        "eagerjit has no torch.qqqqqqqq",
        "eagerjit has no module torch.nothing",
    ]
    assert lines[6].startswith("cannot import name 'nothing'") and lines[7] == "True False"


WORKERS = """
import multiprocessing, sys
import torch


def work(queue):
    queue.put((torch.ones(2).sum().item(), torch.__file__, "eagerjit" in torch.__version__))


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(*queue.get(timeout=60))
    process.join()
"""


@pytest.mark.parametrize("start", ["spawn", "fork", "forkserver"])
def test_worker_processes_see_eagerjit_too(tmp_path: Path, start: str) -> None:
    assert printed(tmp_path, WORKERS, start) == [f"2.0 {ROOT}/eagerjit/__init__.py True"]


LOADED = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.tensor(float(index)) ** 2


if __name__ == "__main__":
    loader = DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context=sys.argv[1])
    print(*(batch.tolist() for batch in loader))
"""


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_a_loaders_workers_see_eagerjit_too(tmp_path: Path, start: str) -> None:
    assert printed(tmp_path, LOADED, start) == ["[0.0, 1.0, 4.0, 9.0] [16.0, 25.0]"]


LATE = """
import atexit, pickle
import torch


class Record:
    pass


def finish():
    print(torch.ones(1).item(), type(pickle.loads(pickle.dumps(Record()))).__name__)


atexit.register(finish)
"""


def test_a_program_is_alive_until_the_end(tmp_path: Path) -> None:
    assert printed(tmp_path, LATE) == ["1.0 Record"]


def test_a_torch_that_is_there_already_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("VALUE = 1\n")
    code = "import torch\nfrom eagerjit import standin\ntry:\n    standin.install()\nexcept ImportError as e:\n"
    code += "    print(e, torch.VALUE)\nimport sys; print(sys.modules['torch'] is torch)"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "imported already" in found.stdout and found.stdout.endswith("1\nTrue\n")


USES = """
import torch
import torch.nn as nn, torch.nn.functional as F
from torch.optim import Adam, NoSuchOptimizer
from torch import nothing
import torch.absent
try:
    import torch.guarded
except ImportError:
    pass
if hasattr(torch, "asked_for"):
    torch.asked_for()
layers = nn
Layer = layers.Linear
class Model(layers.Module):
    def forward(self, x, torch_=torch):
        x = F.reluuu(x)
        torch = 3
        torch.is_shadowed
        y = layers.Convolution9d(1)
        return x.whatever + Adam.nonsense + Layer(1, 2).unknown
def later():
    return torch.Tensor.no_method, torch.utils.data.NoSuchSampler, torch.float32.itemsize, alias.relu6
alias = F
import beside
raise SystemExit("not run")
"""


def test_check_lists_missing_names_by_line(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("from torch import *\nimport torch\ntorch.not_here\n")
    result = run(tmp_path, USES, command="check")
    assert result.returncode == 1 and not result.stderr
    lines = [line.removeprefix(str(tmp_path)) for line in result.stdout.splitlines()]
    found = [(line.split(": ")[0], line.split(" no ")[1].split(";")[0].split(" (")[0]) for line in lines]
    assert found == [
        ("/program.py:4", "torch.optim.NoSuchOptimizer"),
        ("/program.py:5", "torch.nothing"),
        ("/program.py:6", "torch.absent"),
        ("/program.py:8", "torch.guarded"),
        ("/program.py:12", "torch.asked_for"),
        ("/program.py:17", "torch.nn.functional.reluuu"),
        ("/program.py:20", "torch.nn.Convolution9d"),
        ("/program.py:21", "torch.optim.Adam.nonsense"),
        ("/program.py:23", "torch.Tensor.no_method"),
        ("/program.py:23", "torch.utils.data.NoSuchSampler"),
        ("/beside.py:3", "torch.not_here"),
    ]
    assert [line.endswith("catches the error)") for line in lines] == [i in (3, 4) for i in range(11)]


def test_check_of_a_program_that_needs_nothing_else(tmp_path: Path) -> None:
    result = run(tmp_path, "import torch\ntry:\n    torch.absent\nexcept AttributeError:\n    pass\n", command="check")
    assert result.returncode == 0 and "torch.absent" in result.stdout
    assert run(tmp_path, "import torch\nprint(torch.ones(2))\n", command="check").stdout == ""
    broken = run(tmp_path, "import torch (\n", command="check")
    assert broken.returncode == 1 and "program.py" in broken.stderr and "Traceback" not in broken.stderr
