"""TensorBoard: event files of scalars, pictures, graphs and the like. Needs the package `tensorboard`."""

from __future__ import annotations

try:
    import tensorboard as _tensorboard
except ImportError as error:
    raise ImportError(
        "torch.utils.tensorboard writes its files by the package tensorboard, which is not installed: "
        "pip install 'tensorboard>=2.15'",
        name="tensorboard",
    ) from error

_version = tuple(int(part) for part in _tensorboard.__version__.split(".")[:2])
if _version < (2, 15):
    raise ImportError(
        f"torch.utils.tensorboard needs tensorboard 2.15 or newer, and {_tensorboard.__version__} is installed",
        name="tensorboard",
    )

from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: E402

from eagerjit.utils.tensorboard.writer import FileWriter, SummaryWriter  # noqa: E402

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
