"""Writers of event files: where they write, graphs, videos, jitted functions, and what is said without TensorBoard."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.tensorboard
from event_files import numbers, read, written
from PIL import Image
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto.graph_pb2 import GraphDef

import eagerjit as ej
import eagerjit.utils.tensorboard
from eagerjit.jit import JitWarning


def test_names_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for library in (ej, torch):
        writer = library.utils.tensorboard.SummaryWriter(comment="_c", filename_suffix=".suffix")
        writer.close()
        place = Path(writer.get_logdir())
        assert writer.log_dir == str(place) and place.parent == Path("runs")
        assert place.name.endswith(f"{os.uname().nodename}_c")
        assert all(path.name.endswith(".suffix") for path in place.iterdir())


def test_a_closed_writer_begins_another_file(tmp_path: Path) -> None:
    writer = ej.utils.tensorboard.SummaryWriter(tmp_path)
    writer.add_scalar("a", 1.0)
    writer.close()
    writer.close()
    writer.flush()
    assert writer.file_writer is None
    writer.add_scalar("a", 2.0)
    writer.flush()
    assert len(list(tmp_path.iterdir())) == 2
    writer.close()


def test_walltime_is_that_of_the_caller(tmp_path: Path) -> None:
    with ej.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", 1.0, walltime=12.5)
    (path,) = tmp_path.iterdir()
    assert [event.wall_time for event in LegacyEventFileLoader(str(path)).Load()][1] == 12.5


def test_values_that_only_float32_holds(tmp_path: Path) -> None:
    """PyTorch takes bfloat16 for float16, which has infinity for it."""
    given = ej.tensor([1e30, 2e30], dtype=ej.bfloat16)
    events = written(ej, tmp_path, lambda writer, library: writer.add_histogram("a", given, bins=2))["."]
    assert events[1][0].summary.value[0].histo.max == float(given[1])


@pytest.mark.parametrize("shape", [(1, 2, 3, 4, 5), (3, 2, 3, 4, 5), (4, 1, 1, 4, 5), (9, 2, 3, 2, 2)])
def test_videos(shape: tuple[int, ...], tmp_path: Path) -> None:
    from torch.utils.tensorboard._utils import _prepare_video

    from eagerjit.utils.tensorboard._utils import prepare_video

    given = numbers(*shape)
    frames = prepare_video(given)
    np.testing.assert_array_equal(frames, _prepare_video(given))
    events = written(ej, tmp_path, lambda writer, library: writer.add_video("a", library.tensor(given), 3, fps=10))["."]
    image = events[1][0].summary.value[0].image
    assert (image.height, image.width, image.colorspace) == frames.shape[1:]
    (tmp_path / "a.gif").write_bytes(image.encoded_image_string)
    with Image.open(tmp_path / "a.gif") as video:
        assert (video.n_frames, video.size) == (shape[1], frames.shape[2:0:-1])


class Net(ej.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = ej.nn.Sequential(ej.nn.Linear(3, 4), ej.nn.ReLU(), ej.nn.Dropout(0.5))
        self.head = ej.nn.Linear(4, 2)
        self.register_buffer("scale", ej.tensor(2.0))

    def forward(self, x: Any, y: Any) -> Any:
        z = self.body(x) * self.scale
        z[0] = y
        first, second = self.head(z).mT.split(1)
        return {"sum": first.sum() + second.sum()} if z.sum() > -1 else z


def test_graph(tmp_path: Path) -> None:
    model = Net()
    model.head.eval()
    given = (ej.ones(5, 3), ej.ones(4))
    events = written(ej, tmp_path, lambda writer, library: writer.add_graph(model, given))["."]
    assert events[2][0].tagged_run_metadata.tag == "step1"
    nodes = {node.name: node for node in GraphDef.FromString(events[1][0].graph_def).node}
    assert {name: list(node.input) for name, node in nodes.items()} == {
        "input/x": [],
        "input/y": [],
        "Net/Sequential[body]/Linear[0]/weight": [],
        "Net/Sequential[body]/Linear[0]/bias": [],
        "Net/Sequential[body]/Linear[0]/linear": [
            "input/x", "Net/Sequential[body]/Linear[0]/weight", "Net/Sequential[body]/Linear[0]/bias",
        ],
        "Net/Sequential[body]/ReLU[1]/relu": ["Net/Sequential[body]/Linear[0]/linear"],
        "Net/scale": [],
        "Net/mul": ["Net/Sequential[body]/ReLU[1]/relu", "Net/scale"],
        "Net/__setitem__": ["Net/mul", "input/y"],
        "Net/Linear[head]/weight": [],
        "Net/Linear[head]/bias": [],
        "Net/Linear[head]/linear": ["Net/__setitem__", "Net/Linear[head]/weight", "Net/Linear[head]/bias"],
        "Net/mT": ["Net/Linear[head]/linear"],
        "Net/split": ["Net/mT"],
        "Net/sum": ["Net/__setitem__"],
        "Net/gt": ["Net/sum"],
        "Net/sum_1": ["Net/split"],
        "Net/sum_2": ["Net/split:1"],
        "Net/add": ["Net/sum_1", "Net/sum_2"],
        "output/output.1": ["Net/add"],
    }  # fmt: skip
    assert nodes["Net/Sequential[body]/Linear[0]/linear"].op == "aten::linear"
    shapes = [[d.size for d in s.dim] for s in nodes["Net/split"].attr["_output_shapes"].list.shape]
    assert shapes == [[1, 5], [1, 5]] and nodes["Net/split"].attr["attr"].s == b"{1}"
    assert [module.training for module in model.modules()] == [True, True, True, True, True, False]


def test_graph_of_a_function_and_of_a_compiled_module(tmp_path: Path) -> None:
    from eagerjit.utils.tensorboard._pytorch_graph import graph

    assert [node.name for node in graph(lambda x: x @ x, ej.ones(2, 2))[0].node][1] == "lambda/matmul"
    model = ej.nn.Sequential(ej.nn.Linear(3, 4), ej.nn.ReLU())
    plain = graph(model, ej.ones(2, 3))[0]
    assert graph(ej.jit(model), ej.ones(2, 3))[0] == plain
    compiled = graph(ej.compile(model), ej.ones(2, 3))[0]
    assert [node.op for node in compiled.node] == [node.op for node in plain.node]
    assert compiled.node[3].name == "OptimizedModule/Sequential[_orig_mod]/Linear[0]/linear"
    operations = [node.op for node in plain.node if node.op.startswith("aten")]
    with torch.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_graph(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()), torch.ones(2, 3))
    theirs = GraphDef.FromString(read(tmp_path)["."][1][0].graph_def)
    assert operations == [node.op for node in theirs.node if node.op.startswith("aten")]


def test_writing_in_a_jitted_function(tmp_path: Path) -> None:
    """Each call writes once, and the function runs eagerly after a warning that names the line."""

    def step(writer: Any, x: Any, i: int) -> Any:
        loss = (x * x).sum()
        writer.add_scalar("loss", loss, i)
        writer.add_histogram("x", x, i)
        writer.add_text("text", f"step {i}", i)
        with ej.utils.tensorboard.SummaryWriter(tmp_path / "inner" / str(i)) as inner:
            inner.add_scalar("constant", 2.5)
        return loss

    def case(writer: Any, library: Any) -> None:
        for i in range(4):
            function(writer, ej.ones(3) * i, i)

    function = step
    plain = written(ej, tmp_path / "plain", case)
    inner = read(tmp_path / "inner")
    function = ej.jit(step)
    with pytest.warns(JitWarning, match=r"test_tensorboard_writers.py:\d+: an event file is written"):
        assert written(ej, tmp_path / "jitted", case) == plain
    assert read(tmp_path / "inner") == inner and len(plain["."]) == 13


def test_nothing_imports_it_and_its_absence_is_told() -> None:
    code = (
        "import sys, eagerjit, eagerjit.utils\nassert 'tensorboard' not in sys.modules\n"
        "sys.modules['tensorboard'] = None\n"
        "try:\n    import eagerjit.utils.tensorboard\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert "pip install 'tensorboard>=2.15'" in done.stdout


def test_under_the_name_of_torch(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\nfrom torch.utils.tensorboard import SummaryWriter\n"
        "from torch.utils.tensorboard.summary import hparams\n"
        "with SummaryWriter('run') as writer:\n"
        "    writer.add_scalar('a', torch.tensor(2.0), 1)\n"
        "    for message in hparams({'a': 1}, {'b': 2}):\n        writer.file_writer.add_summary(message)\n"
    )
    command = [sys.executable, "-m", "eagerjit", "run", str(program)]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    assert len(read(tmp_path / "run")["."]) == 5
