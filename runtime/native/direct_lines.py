"""The input lines that a task of `direct` reads, copied to where a core's cache holds them, zeros around them."""

from __future__ import annotations

from eagerjit.runtime.native.convolution_plan import CHANNELS, GROUPS, POINTS, minimum, reads_outside
from eagerjit.runtime.native.copying import copy_within, interleave
from eagerjit.runtime.native.direct_plan import ABREAST, CHANNEL_FLOATS, LINES, PITCH, phases, reach
from eagerjit.runtime.native.language import fill_bytes, i64, load_f32, load_i64, ptr, store_f32
from eagerjit.runtime.native.windows import DEPTH, DILATION, HEIGHT, INPUT, KERNEL, PADDING, STRIDE, WIDTH


def copy_lines_read(
    job: ptr, to: ptr, source: ptr, channels: i64, images: i64, z: i64, y: i64, x: i64
) -> None:
    """What a task reads of some channels: per channel, depth of the kernel and phases the lines, zeros as padding.

    What lies behind the input without being padding is for outputs that there are not; any numbers do.
    """
    input_depth = load_i64(job, DEPTH + INPUT)
    input_height = load_i64(job, HEIGHT + INPUT)
    input_width = load_i64(job, WIDTH + INPUT)
    pitch = load_i64(job, PITCH)
    lines = load_i64(job, LINES) + reach(job, HEIGHT)
    step = load_i64(job, WIDTH + STRIDE)
    left = x * step - load_i64(job, WIDTH + PADDING)
    top = y * load_i64(job, HEIGHT + STRIDE) - load_i64(job, HEIGHT + PADDING)
    front = z * load_i64(job, DEPTH + STRIDE) - load_i64(job, DEPTH + PADDING)
    if reads_outside(job):
        fill_bytes(to, 0, channels * load_i64(job, CHANNEL_FLOATS) * 4)
    for _ in range(channels):
        for depth in range(load_i64(job, DEPTH + KERNEL)):
            in_z = front + depth * load_i64(job, DEPTH + DILATION)
            for tall in range(phases(job, HEIGHT)):
                for wide in range(phases(job, WIDTH)):
                    for i in range(lines):
                        in_y = top + i * load_i64(job, HEIGHT + STRIDE) + tall
                        if 0 <= in_z < input_depth and 0 <= in_y < input_height:
                            line: ptr = source + (in_z * input_height + in_y) * input_width * 4
                            _copy_line(job, to, line, images, left + wide)
                        to = to + pitch * 4
        source = source + load_i64(job, POINTS) * 4


def _copy_line(job: ptr, to: ptr, line: ptr, images: i64, first: i64) -> None:
    """A line from `first` on, as far as there is any, of all images side by side."""
    abreast = load_i64(job, ABREAST)
    step = load_i64(job, WIDTH + STRIDE)
    width = load_i64(job, WIDTH + INPUT)
    columns = load_i64(job, PITCH) // abreast
    if abreast == 1:
        copy_within(to, line, first, step, columns, width)
        return
    begin = (step - 1 - first) // step if first < 0 else 0
    end = (width - first + step - 1) // step if first < width else 0
    row = load_i64(job, GROUPS) * load_i64(job, CHANNELS) * load_i64(job, POINTS)
    line = line + (first + begin * step) * 4
    count = minimum(end, columns) - begin
    if count <= 0:
        return
    if step == 1:
        interleave(to + begin * abreast * 4, abreast, line, row, images, count)
        return
    to = to + begin * abreast * 4
    for _ in range(count):
        for image in range(images):
            store_f32(to, image * 4, load_f32(line, image * row * 4))
        to = to + abreast * 4
        line = line + step * 4
