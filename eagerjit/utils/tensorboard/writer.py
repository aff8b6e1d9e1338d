"""Writers of event files: of messages as they are, and of values by kinds."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from google.protobuf import text_format
from tensorboard.compat.proto.event_pb2 import Event, SessionLog, TaggedRunMetadata
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from eagerjit.state import state
from eagerjit.utils.tensorboard import summary
from eagerjit.utils.tensorboard._convert_np import make_np
from eagerjit.utils.tensorboard._embedding import write_embedding
from eagerjit.utils.tensorboard._histograms import default_limits
from eagerjit.utils.tensorboard._pytorch_graph import graph
from eagerjit.watching.observation import TraceBreak, user_line

__all__ = ["FileWriter", "SummaryWriter"]


def _end_recording() -> None:
    """Files are written by calls that run eagerly: before anything is done that would be done twice."""
    if state.tracer is not None:
        raise TraceBreak("an event file is written", user_line())


class FileWriter:
    """Adds messages to one event file, in a thread of its own."""

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = ""):
        _end_recording()
        self._made_with = (str(log_dir), max_queue, flush_secs, filename_suffix)
        self.event_writer = EventFileWriter(*self._made_with)

    def get_logdir(self) -> str:
        """The folder of the file."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Event, step: Any = None, walltime: float | None = None) -> None:
        """Add an event at a step and time, which is now if none is given."""
        _end_recording()
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Summary, global_step: Any = None, walltime: float | None = None) -> None:
        """Add what a function of `summary` has made."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: Any, walltime: float | None = None) -> None:
        """Add a pair of a graph and of what is known of its run."""
        made, ran = graph_profile
        self.add_event(Event(graph_def=made.SerializeToString()), None, walltime)
        tagged = TaggedRunMetadata(tag="step1", run_metadata=ran.SerializeToString())
        self.add_event(Event(tagged_run_metadata=tagged), None, walltime)

    def flush(self) -> None:
        """Wait until all that was added is in the file."""
        _end_recording()
        self.event_writer.flush()

    def close(self) -> None:
        """Flush and close the file."""
        _end_recording()
        self.event_writer.close()

    def reopen(self) -> None:
        """Go on in a new file in the same folder."""
        _end_recording()
        self.event_writer = EventFileWriter(*self._made_with)


class SummaryWriter:
    """Writes values by tag and step into an event file of a folder, `runs/DATE_HOST` if none is named.

    `comment` is added to that name. From `purge_step` on, what earlier files of the folder hold is not shown.
    Up to `max_queue` events wait to be written, `flush_secs` seconds at most.
    """

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
        flush_secs: float = 120, filename_suffix: str = "",
    ):  # fmt: skip
        if not log_dir:
            log_dir = Path("runs", f"{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self.default_bins = default_limits()
        self._projector = ProjectorConfig()
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        _end_recording()
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = self._opened(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                self.file_writer.add_event(Event(file_version="brain.Event:2"), self.purge_step)
                started = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(session_log=started), self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _opened(self, log_dir: str) -> FileWriter:
        return FileWriter(log_dir, self.max_queue, self.flush_secs, self.filename_suffix)

    def _add(self, global_step: Any, walltime: float | None, make: Callable[..., Summary], *args: Any) -> None:
        self._get_file_writer().add_summary(make(*args), global_step, walltime)

    def get_logdir(self) -> str:
        """The folder that files are written into."""
        return self.log_dir

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: Any = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """Add one number."""
        self._add(global_step, walltime, summary.scalar, tag, scalar_value, None, new_style, double_precision)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Add several numbers that share a plot, each to a file in a folder of its own."""
        main = self._get_file_writer()
        walltime = time.time() if walltime is None else walltime
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            folder = f"{main.get_logdir()}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in self.all_writers:
                self.all_writers[folder] = self._opened(folder)
            self.all_writers[folder].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Add a tensor with all its values."""
        self._add(global_step, walltime, summary.tensor_proto, tag, tensor)

    def add_histogram(
        self, tag: str, values: Any, global_step: Any = None, bins: Any = "tensorflow", walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """Add counts of values between TensorFlow's limits, limits that are given, or those of a rule of NumPy's."""
        limits = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(global_step, walltime, summary.histogram, tag, values, limits, max_bins)

    def add_histogram_raw(
        self, tag: str, min: float, max: float, num: float, sum: float, sum_squares: float, bucket_limits: Any,
        bucket_counts: Any, global_step: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add counts that are known; `bucket_limits` are the buckets' upper limits."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(f"{len(bucket_limits)} limits of buckets and {len(bucket_counts)} counts")
        given = (min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(global_step, walltime, summary.histogram_raw, tag, *given)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """Add a picture: uint8, or other numbers from 0 to 1."""
        self._add(global_step, walltime, summary.image, tag, img_tensor, 1, dataformats)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Add several pictures as one, in rows of eight."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self, tag: str, img_tensor: Any, box_tensor: Any, global_step: Any = None, walltime: float | None = None,
        rescale: float = 1, dataformats: str = "CHW", labels: Any = None,
    ) -> None:  # fmt: skip
        """Add a picture with boxes (left, top, right, bottom); labels that are not one for each are left out."""
        if isinstance(labels, str):
            labels = [labels]
        if labels is not None and len(labels) != len(box_tensor):
            labels = None
        self._add(global_step, walltime, summary.image_boxes, tag, img_tensor, box_tensor, rescale, dataformats, labels)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Add a picture of a matplotlib figure, or of several, which are closed then."""
        self._add(global_step, walltime, summary.figure, tag, figure, close)

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: Any = None, fps: float = 4, walltime: float | None = None
    ) -> None:
        """Add videos [N, T, C, H, W] side by side, as a GIF."""
        self._add(global_step, walltime, summary.video, tag, vid_tensor, fps)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: Any = None, sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add sound of one channel, from -1 to 1."""
        self._add(global_step, walltime, summary.audio, tag, snd_tensor, sample_rate)

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        """Add text, which is shown as Markdown."""
        self._add(global_step, walltime, summary.text, tag, text_string)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Add the operations that a Module runs of a tensor, or of a tuple or list of arguments, by Modules."""
        self._get_file_writer().add_graph(graph(model, input_to_model, verbose, use_strict_trace))

    def add_onnx_graph(self, prototxt: Any) -> None:
        """Raises NotImplementedError: eagerjit reads no ONNX files."""
        raise NotImplementedError("eagerjit reads no ONNX files: add_graph shows the operations of a Module")

    def add_embedding(
        self, mat: Any, metadata: Any = None, label_img: Any = None, global_step: Any = None, tag: str = "default",
        metadata_header: Any = None,
    ) -> None:  # fmt: skip
        """Write points [N, features] for the projector, with a label or a picture [C, H, W] for each."""
        folder = Path(self._get_file_writer().get_logdir())
        points, pictures = make_np(mat), None if label_img is None else make_np(label_img)
        step = str(0 if global_step is None else global_step).zfill(5)
        info = write_embedding(folder, points, metadata, pictures, step, tag, metadata_header)
        self._projector.embeddings.append(info)
        (folder / "projector_config.pbtxt").write_text(text_format.MessageToString(self._projector))

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: Any = None, num_thresholds: int = 127,
        weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add precision and recall of predictions from 0 to 1, by thresholds."""
        self._add(global_step, walltime, summary.pr_curve, tag, labels, predictions, num_thresholds, weights)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Any, false_positive_counts: Any, true_negative_counts: Any,
        false_negative_counts: Any, precision: Any, recall: Any, global_step: Any = None, num_thresholds: int = 127,
        weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add precision and recall by counts that are known."""
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        self._add(global_step, walltime, summary.pr_curve_raw, tag, *counts, precision, recall, num_thresholds)

    def add_custom_scalars(self, layout: dict[str, dict[str, Any]]) -> None:
        """Say which scalars share a chart: {category: {title: ["Multiline" or "Margin", tags]}}."""
        self._add(None, None, summary.custom_scalars, layout)

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Say that scalars share a chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Say that three scalars are a value and its lower and upper limit."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_mesh(
        self, tag: str, vertices: Any, colors: Any = None, faces: Any = None, config_dict: Any = None,
        global_step: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add points [batch, count, 3] with colors, and triangles between them."""
        self._add(global_step, walltime, summary.mesh, tag, vertices, colors, faces, config_dict)

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any], hparam_domain_discrete: Any = None,
        run_name: str | None = None, global_step: Any = None,
    ) -> None:  # fmt: skip
        """Add hyperparameters and what a run with them has resulted in, to a file in a folder of the run."""
        folder = Path(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        made = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(folder) as run:
            for message in made:
                run._get_file_writer().add_summary(message, global_step)
            for tag, value in metric_dict.items():
                run.add_scalar(tag, value, global_step)

    def flush(self) -> None:
        """Wait until all that was added is in the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Flush and close all files; what is added later goes into new ones."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
