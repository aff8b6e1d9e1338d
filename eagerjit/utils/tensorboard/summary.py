"""Values as the messages that TensorBoard reads: what a writer writes, step and time aside."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as charts
from tensorboard.plugins.mesh import metadata as meshes
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor
from eagerjit.utils.tensorboard._convert_np import make_np
from eagerjit.utils.tensorboard._curves import MOST_THRESHOLDS, compute_curve
from eagerjit.utils.tensorboard._experiments import hparams
from eagerjit.utils.tensorboard._histograms import make_histogram
from eagerjit.utils.tensorboard._utils import (
    as_bytes,
    convert_to_HWC,
    draw_boxes,
    figure_to_image,
    make_image,
    make_video,
    prepare_video,
)  # fmt: skip

__all__ = [
    "audio", "compute_curve", "custom_scalars", "draw_boxes", "figure", "histogram", "histogram_raw", "hparams",
    "image", "image_boxes", "make_histogram", "make_image", "make_video", "mesh", "pr_curve", "pr_curve_raw", "scalar",
    "tensor_proto", "text", "video",
]  # fmt: skip


def _for_plugin(name: str, content: bytes = b"") -> SummaryMetadata:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=content))


def _shape(sizes: Any) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


def scalar(
    name: str, tensor: Any, collections: Any = None, new_style: bool = False, double_precision: bool = False
) -> Summary:
    """One number; in the new style it is a tensor for the plugin of scalars, of 64 bits if that is asked for."""
    array = make_np(tensor).squeeze()
    if array.ndim != 0:
        raise AssertionError(f"a scalar is one element, and not {array.size} in {array.ndim} dimensions")
    value = float(array)
    if not new_style:
        return Summary(value=[Summary.Value(tag=name, simple_value=value)])
    written = TensorProto(dtype="DT_FLOAT", float_val=[value])
    if double_precision:
        written = TensorProto(dtype="DT_DOUBLE", double_val=[value])
    return Summary(value=[Summary.Value(tag=name, tensor=written, metadata=_for_plugin("scalars"))])


def _bits(array: NDArray[Any]) -> list[int]:
    return array.view(np.uint16).tolist()


def _parts(array: NDArray[Any]) -> list[float]:
    return array.view(array.real.dtype).tolist()


_LISTED: dict[Any, tuple[str, str, Callable[[NDArray[Any]], list[Any]]]] = {
    dtypes.float16: ("DT_HALF", "half_val", _bits),
    dtypes.bfloat16: ("DT_BFLOAT16", "half_val", _bits),
    dtypes.float32: ("DT_FLOAT", "float_val", np.ndarray.tolist),
    dtypes.float64: ("DT_DOUBLE", "double_val", np.ndarray.tolist),
    dtypes.int8: ("DT_INT8", "int_val", np.ndarray.tolist),
    dtypes.uint8: ("DT_UINT8", "int_val", np.ndarray.tolist),
    dtypes.int16: ("DT_INT16", "int_val", np.ndarray.tolist),
    dtypes.int32: ("DT_INT32", "int_val", np.ndarray.tolist),
    dtypes.int64: ("DT_INT64", "int64_val", np.ndarray.tolist),
    dtypes.bool_: ("DT_BOOL", "bool_val", np.ndarray.tolist),
    dtypes.complex64: ("DT_COMPLEX64", "scomplex_val", _parts),
    dtypes.complex128: ("DT_COMPLEX128", "dcomplex_val", _parts),
}
"""For each dtype the type, where TensorFlow's readers look for the values, and how these are listed."""


def tensor_proto(tag: str, tensor: Tensor) -> Summary:
    """A tensor with all of its values. Raises ValueError for dtypes that TensorBoard does not read."""
    if tensor.dtype not in _LISTED:
        raise ValueError(f"{tag} is of {tensor.dtype}, which no summary holds")
    kind, field, listed = _LISTED[tensor.dtype]
    values = listed(tensor.detach().cpu().resolve_conj().contiguous().reshape(-1).numpy())
    written = TensorProto(dtype=kind, tensor_shape=_shape(tensor.shape), **{field: values})
    return Summary(value=[Summary.Value(tag=tag, tensor=written, metadata=_for_plugin("tensor"))])


def histogram_raw(
    name: str, min: float, max: float, num: float, sum: float, sum_squares: float, bucket_limits: Any,
    bucket_counts: Any,
) -> Summary:  # fmt: skip
    """A histogram of counts that are known."""
    written = HistogramProto(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits, bucket=bucket_counts
    )
    return Summary(value=[Summary.Value(tag=name, histo=written)])


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Summary:
    """A histogram of values, between limits that are given or chosen by NumPy's rule of that name."""
    written = make_histogram(make_np(values).astype(float), bins, max_bins)
    return Summary(value=[Summary.Value(tag=name, histo=written)])


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Summary:
    """A picture: uint8, or other numbers from 0 to 1."""
    picture = as_bytes(convert_to_HWC(make_np(tensor), dataformats))
    return Summary(value=[Summary.Value(tag=tag, image=make_image(picture, rescale))])


def figure(tag: str, figures: Any, close: bool = True) -> Summary:
    """A picture of a matplotlib figure, or of a list of them, which are closed then."""
    return image(tag, figure_to_image(figures, close), 1, "NCHW" if isinstance(figures, list) else "CHW")


def image_boxes(
    tag: str, tensor_image: Any, tensor_boxes: Any, rescale: float = 1, dataformats: str = "CHW", labels: Any = None
) -> Summary:
    """A picture with boxes (left, top, right, bottom) drawn on it."""
    picture = as_bytes(convert_to_HWC(make_np(tensor_image), dataformats))
    written = make_image(picture, rescale, make_np(tensor_boxes), labels)
    return Summary(value=[Summary.Value(tag=tag, image=written)])


def video(tag: str, tensor: Any, fps: float = 4) -> Summary:
    """Videos [N, T, C, H, W] side by side."""
    frames = as_bytes(prepare_video(make_np(tensor)))
    return Summary(value=[Summary.Value(tag=tag, image=make_video(frames, fps))])


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Summary:
    """Sound of one channel, from -1 to 1, as a WAV file of 16 bits."""
    sound = make_np(tensor).squeeze()
    if sound.ndim != 1:
        raise AssertionError(f"sound has one dimension, and not the {sound.ndim} of {list(sound.shape)}")
    limited = np.clip(sound, -1, 1)
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setparams((1, 2, sample_rate, 0, "NONE", ""))
        written.writeframes((limited * np.iinfo(np.int16).max).astype("<i2").tobytes())
    made = Summary.Audio(
        sample_rate=sample_rate, num_channels=1, length_frames=len(sound),
        encoded_audio_string=file.getvalue(), content_type="audio/wav",
    )  # fmt: skip
    return Summary(value=[Summary.Value(tag=tag, audio=made)])


def text(tag: str, text: str) -> Summary:
    """Text, which is shown as Markdown."""
    content = TextPluginData(version=0).SerializeToString()
    written = TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=_shape([1]))
    value = Summary.Value(tag=f"{tag}/text_summary", metadata=_for_plugin("text", content), tensor=written)
    return Summary(value=[value])


def pr_curve_raw(
    tag: str, tp: Any, fp: Any, tn: Any, fn: Any, precision: Any, recall: Any, num_thresholds: int = MOST_THRESHOLDS,
    weights: Any = None,
) -> Summary:  # fmt: skip
    """A curve of precision and recall by counts that are known, of 127 thresholds at most. `weights` is not used."""
    content = PrCurvePluginData(version=0, num_thresholds=min(num_thresholds, MOST_THRESHOLDS)).SerializeToString()
    rows = np.stack([make_np(row) if isinstance(row, Tensor) else row for row in (tp, fp, tn, fn, precision, recall)])
    written = TensorProto(dtype="DT_FLOAT", float_val=rows.reshape(-1).tolist(), tensor_shape=_shape(rows.shape))
    return Summary(value=[Summary.Value(tag=tag, metadata=_for_plugin("pr_curves", content), tensor=written)])


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = MOST_THRESHOLDS, weights: Any = None
) -> Summary:
    """A curve of precision and recall of predictions from 0 to 1, by thresholds, of which there are 127 at most."""
    num_thresholds = min(num_thresholds, MOST_THRESHOLDS)
    rows = compute_curve(make_np(labels), make_np(predictions), num_thresholds, weights)
    return pr_curve_raw(tag, *rows, num_thresholds)  # type: ignore[call-arg]  # six rows


def _chart(title: str, kind: str, tags: list[str]) -> layout_pb2.Chart:
    if kind != "Margin":
        return layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags))
    if len(tags) != 3:
        raise AssertionError(f"a margin chart has tags of a value and of its lower and upper limit: 3, not {len(tags)}")
    series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
    return layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series]))


def custom_scalars(layout: dict[str, dict[str, Any]]) -> Summary:
    """Which scalars share a chart: {category: {title: ["Multiline" or "Margin", tags]}}."""
    categories = [
        layout_pb2.Category(title=category, chart=[_chart(title, *told) for title, told in of.items()])
        for category, of in layout.items()
    ]
    made = layout_pb2.Layout(category=categories).SerializeToString()
    written = TensorProto(dtype="DT_STRING", string_val=[made], tensor_shape=TensorShapeProto())
    value = Summary.Value(tag=charts.CONFIG_SUMMARY_TAG, tensor=written, metadata=_for_plugin(charts.PLUGIN_NAME))
    return Summary(value=[value])


def mesh(
    tag: str, vertices: Any, colors: Any = None, faces: Any = None, config_dict: Any = None,
    display_name: str | None = None, description: str | None = None,
) -> Summary:  # fmt: skip
    """Points [batch, count, 3] with colors, and triangles [batch, count, 3] between them by index."""
    given = [(vertices, MeshPluginData.VERTEX), (faces, MeshPluginData.FACE), (colors, MeshPluginData.COLOR)]
    present = [(make_np(what), kind) for what, kind in given if what is not None]
    components = meshes.get_components_bitmask([kind for _, kind in present])
    values = []
    for array, kind in present:
        described = meshes.create_summary_metadata(
            tag, display_name, kind, components, list(array.shape), description,
            json_config=json.dumps({} if config_dict is None else config_dict, sort_keys=True),
        )  # fmt: skip
        written = TensorProto(dtype="DT_FLOAT", float_val=array.reshape(-1).tolist(), tensor_shape=_shape(array.shape))
        name = meshes.get_instance_name(tag, kind)
        values.append(Summary.Value(tag=name, tensor=written, metadata=described))
    return Summary(value=values)
