"""Event files: message by message what PyTorch's writer writes, times aside; and what only ours can."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
import torch.utils.tensorboard
from event_files import Case, numbers, written
from oracle import dtype_name
from tensorboard.util.tensor_util import make_ndarray

import eagerjit as ej
import eagerjit.utils.tensorboard

matplotlib.use("agg")


def same_files(tmp_path: Path, case: Case, **options: Any) -> None:
    ours = written(ej, tmp_path / "ours", case, **options)
    theirs = written(torch, tmp_path / "theirs", case, **options)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name] == theirs[name], name


LAYOUT = {"a": {"b": ["Multiline", ["x", "y"]], "c": ["Margin", ["x", "y", "z"]]}, "d": {"e": ["other", ["x"]]}}
LABELS, SCORES = np.array([0, 1, 1, 0, 1]), np.array([0.1, 0.9, 0.4, 0.6, 1.0], dtype=np.float32)
BOXES = np.array([[2, 2, 10, 10], [5, 5, 20.0, 30.5]])


def figure() -> Any:
    import matplotlib.pyplot as plt

    made = plt.figure(figsize=(0.4, 0.3))
    made.add_axes((0, 0, 1, 1)).plot([1, 3, 2])
    return made


SCALARS: dict[str, Case] = {
    "scalar": lambda w, t: w.add_scalar("a/b c", 1.5, 3),
    "scalar without a step": lambda w, t: w.add_scalar("a", 0.1),
    "scalar tensor": lambda w, t: w.add_scalar("a", t.tensor([[2.5]]), t.tensor(4)),
    "scalar that requires grad": lambda w, t: w.add_scalar("a", t.tensor(1.3, requires_grad=True) * 2, np.int64(4)),
    "scalar of float16": lambda w, t: w.add_scalar("a", t.tensor(1.3, dtype=t.float16), 2.5),
    "scalar of bfloat16": lambda w, t: w.add_scalar("a", t.tensor(1.3, dtype=t.bfloat16)),
    "scalar of bool": lambda w, t: w.add_scalar("a", t.tensor(True)),
    "scalar of numpy": lambda w, t: (w.add_scalar("a", np.float64(0.1)), w.add_scalar("a", np.ones((1, 1)))),
    "scalar of text": lambda w, t: w.add_scalar("a", "1.25"),
    "scalar of a new style": lambda w, t: w.add_scalar("a", 0.1, 1, new_style=True),
    "scalar of 64 bits": lambda w, t: w.add_scalar("a", 0.1, 1, new_style=True, double_precision=True),
    "scalar of 64 bits, old style": lambda w, t: w.add_scalar("a", 0.1, 1, double_precision=True),
    "scalars": lambda w, t: [w.add_scalars("a/b", {"x": 1.0, "y z": t.tensor(2.0)}, i) for i in range(3)],
    "purged": lambda w, t: w.add_scalar("a", 1.0),
    "text": lambda w, t: w.add_text("a/b", "# é\n\n*b*", 2),
    "custom scalars": lambda w, t: w.add_custom_scalars(LAYOUT),
    "multiline chart": lambda w, t: w.add_custom_scalars_multilinechart(["x", "y"]),
    "margin chart": lambda w, t: w.add_custom_scalars_marginchart(["x", "y", "z"], "a", "b"),
    "hyperparameters": lambda w, t: w.add_hparams(
        {"lr": 0.1, "n": 3, "s": "x", "b": True, "t": t.tensor([2.0]), "none": None},
        {"loss": 1.5, "rate": t.tensor(2.0), "of numpy": np.float32(0.1)}, run_name="run", global_step=4,
    ),
    "hyperparameters with domains": lambda w, t: w.add_hparams(
        {"lr": 0.1, "n": 3, "s": "x", "b": True}, {}, {"lr": [0.1, 0.2], "s": ["x", "y"], "b": [True, False]}, "run"
    ),
}  # fmt: skip

HISTOGRAMS: dict[str, Case] = {
    **{f"by {bins}": lambda w, t, bins=bins: w.add_histogram("a", t.tensor(numbers(9, 11, low=-2, high=3)), 1, bins)
       for bins in ("tensorflow", "auto", "fd", "doane", "scott", "stone", "rice", "sturges", "sqrt")},
    **{f"{bins} bins, {most} at most": lambda w, t, bins=bins, most=most: w.add_histogram(
        "a", t.tensor(numbers(99, low=-2, high=3)), 1, bins, max_bins=most)
       for bins in ("tensorflow", 20, 7) for most in (1, 3, 6, 7, 40)},
    "by limits": lambda w, t: w.add_histogram("a", numbers(99, low=-2, high=3), bins=[0.0, 0.5, 1.0, 1.1, 2.0]),
    "by limits far out": lambda w, t: w.add_histogram("a", numbers(99), bins=[-3, -2.0, 0.5, 1.0, 1.1, 2.0]),
    "of integers": lambda w, t: w.add_histogram("a", t.arange(20), bins=4),
    "of bools": lambda w, t: w.add_histogram("a", t.tensor([True, False, True])),
    "of a number": lambda w, t: w.add_histogram("a", 3),
    "of zeros": lambda w, t: w.add_histogram("a", t.zeros(3, 4)),
    "of negative numbers": lambda w, t: w.add_histogram("a", t.tensor([-1.0, -1e30, -1e15, 1e15])),
    "of bfloat16": lambda w, t: w.add_histogram("a", t.tensor(numbers(9)).bfloat16()),
    "known": lambda w, t: w.add_histogram_raw("a", 0.0, 1.0, 3, 2.0, 5.0, [1.0, 2.0], t.tensor([1, 2]), 5),
    "curve": lambda w, t: w.add_pr_curve("a", t.tensor(LABELS), t.tensor(SCORES), 1),
    "curve of few": lambda w, t: w.add_pr_curve("a", LABELS, SCORES, num_thresholds=4),
    "curve of one": lambda w, t: w.add_pr_curve("a", LABELS, SCORES, num_thresholds=1),
    "curve of many": lambda w, t: w.add_pr_curve("a", LABELS == 1, t.tensor(SCORES), num_thresholds=300, weights=2.0),
    "curve with weights": lambda w, t: w.add_pr_curve("a", LABELS, SCORES, weights=np.arange(5.0)),
    "curve beyond 0 and 1": lambda w, t: w.add_pr_curve("a", LABELS, SCORES * 3 - 1, num_thresholds=5),
    "curve of matrices": lambda w, t: w.add_pr_curve("a", LABELS.reshape(1, 5), t.tensor(SCORES).reshape(1, 5)),
    "known curve": lambda w, t: w.add_pr_curve_raw(
        "a", t.tensor([3, 2]), np.array([1, 2]), [4, 5], [7, 8], [0.1, 0.2], [0.3, 0.4], 1, 300
    ),
}  # fmt: skip

PICTURES: dict[str, Case] = {
    **{f"image {form}": lambda w, t, form=form: w.add_image(
        "a", t.tensor(numbers(*[{"c": 3, "h": 4, "w": 5, "n": 11}[c] for c in form.lower()])), 2, dataformats=form)
       for form in ("CHW", "HWC", "WHC", "hwc", "HW", "WH", "NCHW", "NHWC", "CHWN")},
    **{f"images {form}": lambda w, t, form=form: w.add_images(
        "a", numbers(*[{"C": 1, "H": 4, "W": 5, "N": 3}[c] for c in form]), 2, dataformats=form)
       for form in ("NCHW", "NHWC", "NCWH", "CHW", "WH")},
    **{f"image of {channels} channels": lambda w, t, channels=channels: w.add_image(
        "a", t.tensor(numbers(channels, 3, 4))) for channels in (1, 2, 4)},
    "image of bytes": lambda w, t: w.add_image("a", t.arange(60, dtype=t.uint8).reshape(3, 4, 5)),
    "image of bools": lambda w, t: w.add_image("a", t.tensor(numbers(3, 4, 5)) > 0.5),
    "image of integers": lambda w, t: w.add_image("a", t.arange(60).reshape(3, 4, 5) - 20),
    "image out of range": lambda w, t: w.add_image("a", t.tensor(numbers(3, 4, 5, low=-1, high=2))),
    "image of float16": lambda w, t: w.add_image("a", t.tensor(numbers(3, 4, 5)).half()),
    "boxes": lambda w, t: w.add_image_with_boxes("a", t.tensor(numbers(3, 32, 40)), t.tensor(BOXES), 1),
    "boxes with labels": lambda w, t: w.add_image_with_boxes("a", numbers(32, 40, 3), BOXES, dataformats="HWC",
                                                             labels=["a", "gy"]),
    "boxes of one label": lambda w, t: w.add_image_with_boxes("a", numbers(3, 32, 40), BOXES[:1], labels="abc"),
    "boxes with too few labels": lambda w, t: w.add_image_with_boxes("a", numbers(3, 32, 40), BOXES, labels=["a"]),
    "figure": lambda w, t: w.add_figure("a", figure(), 3),
    "figures": lambda w, t: w.add_figure("a", [figure(), figure()], close=False),
    "sound": lambda w, t: w.add_audio("a", t.tensor(numbers(1, 50, low=-1.5, high=1.5)), 2, sample_rate=8000),
    "sound of numpy": lambda w, t: w.add_audio("a", numbers(50)),
    "points": lambda w, t: w.add_mesh("a/b", t.tensor(numbers(2, 4, 3))),
    "points with all": lambda w, t: w.add_mesh(
        "a", t.tensor(numbers(2, 4, 3)), t.arange(24).reshape(2, 4, 3), t.tensor([[[0, 1, 2]], [[1, 2, 3]]]),
        {"camera": {"fov": 75, "cls": "P"}}, 4,
    ),
    "points of faces": lambda w, t: w.add_mesh("a", numbers(1, 4, 3), faces=np.array([[[0, 1, 2]]])),
    "embedding": lambda w, t: w.add_embedding(t.tensor(numbers(5, 3)), global_step=12),
    "embedding of integers": lambda w, t: w.add_embedding(t.arange(6).reshape(3, 2), t.arange(3)),
    "embedding of bfloat16": lambda w, t: w.add_embedding(t.tensor(numbers(5, 3)).bfloat16(), np.arange(5)),
    "embeddings": lambda w, t: (
        w.add_embedding(numbers(5, 3), list("abcde"), t.tensor(numbers(5, 3, 2, 4)), 1, r"a/b\%"),
        w.add_embedding(numbers(3, 3), [["a", 1], ["b", 2], ["c", 3]], metadata_header=["x", "y"], tag="d"),
        w.add_embedding(numbers(2, 2), label_img=t.tensor(numbers(2, 1, 2, 2))),
    ),
}  # fmt: skip

CASES = {**SCALARS, **HISTOGRAMS, **PICTURES}


@pytest.mark.parametrize("name", CASES)
def test_files_are_the_same(name: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same_files(tmp_path, CASES[name], **({"purge_step": 7} if name == "purged" else {}))


@pytest.mark.parametrize("dtype", "float32 float64 int8 int16 int32 int64 bool complex64 complex128".split())
def test_tensors_are_the_same(dtype: str, tmp_path: Path) -> None:
    def case(writer: Any, library: Any) -> None:
        given = library.tensor([[1.5, 2.0, 0.0], [0.0, -3.0, 1.0]]).to(getattr(library, dtype))
        writer.add_tensor("matrix", given, 1)
        writer.add_tensor("columns", given.T)
        writer.add_tensor("number", given[0, 0])
        writer.add_tensor("empty", given[:, :0])

    same_files(tmp_path, case)


@pytest.mark.parametrize("dtype", "float16 uint8 float32 int64 bool complex64".split())
def test_tensors_are_read_back_by_tensorboard(dtype: str, tmp_path: Path) -> None:
    """PyTorch writes float32's bits for halves, and bytes where readers do not look: both cannot be read."""
    given = ej.tensor([[1.25, 2.0, 0.0]]).to(getattr(ej, dtype))
    events = written(ej, tmp_path, lambda writer, library: writer.add_tensor("a", given.requires_grad_(False)))["."]
    found = make_ndarray(events[1][0].summary.value[0].tensor)
    assert str(found.dtype) == dtype_name(given)
    assert found.astype(np.complex64).tolist() == [[complex(x) for x in given.tolist()[0]]]


def test_tensors_of_bfloat16(tmp_path: Path) -> None:
    given = ej.tensor([1.25, -2.0], dtype=ej.bfloat16)
    events = written(ej, tmp_path, lambda writer, library: writer.add_tensor("a", given))["."]
    assert list(events[1][0].summary.value[0].tensor.half_val) == [0x3FA0, 0xC000]


def test_rescaled_boxes(tmp_path: Path) -> None:
    """PyTorch writes the size that the picture had before."""

    def case(writer: Any, library: Any) -> None:
        writer.add_image_with_boxes("a", numbers(3, 32, 40), BOXES, rescale=1.7, labels=["a", "gy"])

    ours, theirs = (
        written(library, tmp_path / library.__name__, case)["."][1][0].summary.value[0].image for library in (ej, torch)
    )
    assert ours.encoded_image_string == theirs.encoded_image_string
    assert (ours.height, ours.width) == (54, 68)


def test_pictures_of_bytes_in_an_embedding(tmp_path: Path) -> None:
    """PyTorch multiplies bytes by 255 too."""
    pictures = ej.arange(8, dtype=ej.uint8).reshape(2, 1, 2, 2)
    found = written(ej, tmp_path, lambda writer, library: writer.add_embedding(ej.ones(2, 2), label_img=pictures))
    rows = np.asarray(found["00000/default/sprite.png"])
    assert rows[:, :, 0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [0] * 4, [0] * 4]
    assert (rows[:, :, 1:] == rows[:, :, :1]).all()


REFUSED: dict[str, Case] = {
    "scalar of many": lambda w, t: w.add_scalar("a", t.ones(3)),
    "scalar of None": lambda w, t: w.add_scalar("a", None),
    "scalar of a list": lambda w, t: w.add_scalar("a", [1]),
    "complex scalar": lambda w, t: w.add_scalar("a", t.tensor(1 + 2j)),
    "scalar of other text": lambda w, t: w.add_scalar("a", "blob"),
    "tensor of uint16": lambda w, t: w.add_tensor("a", t.ones(3, dtype=t.uint16)),
    "histogram of nothing": lambda w, t: w.add_histogram("a", t.zeros(0)),
    "histogram of a list": lambda w, t: w.add_histogram("a", [1, 2]),
    "histogram between other limits": lambda w, t: w.add_histogram("a", t.ones(3), bins=[5, 6, 7]),
    "histogram by no rule": lambda w, t: w.add_histogram("a", t.ones(3), bins="q"),
    "known histogram of other limits": lambda w, t: w.add_histogram_raw("a", 0, 1, 3, 2, 5, [1, 2, 3], [1, 2]),
    "image of one dimension twice": lambda w, t: w.add_image("a", t.ones(3, 4, 4), dataformats="CHH"),
    "image of other dimensions": lambda w, t: w.add_image("a", t.ones(3, 4), dataformats="CHW"),
    "image of other letters": lambda w, t: w.add_image("a", t.ones(3, 4, 5), dataformats="XYZ"),
    "images of four channels": lambda w, t: w.add_images("a", t.ones(2, 4, 3, 5)),
    "videos of four dimensions": lambda w, t: w.add_video("a", t.ones(2, 3, 4, 5)),
    "sound of two channels": lambda w, t: w.add_audio("a", t.ones(2, 9)),
    "text of a list": lambda w, t: w.add_text("a", ["b"]),
    "text of a number": lambda w, t: w.add_text("a", 3),
    "margin chart of two": lambda w, t: w.add_custom_scalars_marginchart(["x", "y"]),
    "layout of two": lambda w, t: w.add_custom_scalars({"a": {"b": ["Margin", ["x", "y"]]}}),
    "points of two dimensions": lambda w, t: w.add_mesh("a", t.ones(2, 3)),
    "hyperparameter of a list": lambda w, t: w.add_hparams({"a": [1]}, {}, run_name="r"),
    "hyperparameters of a list": lambda w, t: w.add_hparams([1], {}, run_name="r"),
    "domain of another": lambda w, t: w.add_hparams({"a": 1}, {}, {"b": [1]}, "r"),
    "domain of another type": lambda w, t: w.add_hparams({"a": 1}, {}, {"a": ["x"]}, "r"),
    "domain that is no list": lambda w, t: w.add_hparams({"a": 1}, {}, {"a": 1}, "r"),
    "curve of lists": lambda w, t: w.add_pr_curve("a", [0, 1], [0.5, 0.1]),
    "embedding of a vector": lambda w, t: w.add_embedding(t.ones(3)),
    "embedding of a list": lambda w, t: w.add_embedding([1.0]),
    "embedding with few labels": lambda w, t: w.add_embedding(t.ones(3, 2), ["a"]),
    "embedding with many pictures": lambda w, t: w.add_embedding(t.ones(3, 2), label_img=t.ones(4, 3, 2, 2)),
    "embedding with few headers": lambda w, t: w.add_embedding(t.ones(1, 2), [["a", "b"]], metadata_header=["x"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, tmp_path: Path) -> None:
    raised = []
    for library in (ej, torch):
        with library.utils.tensorboard.SummaryWriter(tmp_path / library.__name__) as writer:
            with pytest.raises(Exception) as error:
                REFUSED[name](writer, library)
            raised.append(error.type)
    assert raised[0] is raised[1]
