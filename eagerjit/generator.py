"""Generators: streams of random numbers, each a state that draws advance."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from eagerjit.calling.dispatch import Op
from eagerjit.devices import CPU, Device
from eagerjit.ops import index
from eagerjit.recording.numbers import SymbolicInt
from eagerjit.runtime import dtypes
from eagerjit.state import state, untraced
from eagerjit.tensors.creation import arange, tensor
from eagerjit.tensors.placement import NOWHERE, array_at, named, store, wanted
from eagerjit.tensors.tensor import Tensor, new_tensor
from eagerjit.watching.observation import TraceBreak, pause_observation, resume_observation, user_line


class Generator:
    """A stream of random numbers of its own."""

    def __init__(self, device: Any = "cpu"):
        try:
            place = wanted(device)
        except (AssertionError, NotImplementedError) as error:
            raise RuntimeError(f"Cannot get a generator of device {device}: {error}") from None
        zeros = np.zeros(2, np.int64)
        self.state: Tensor = new_tensor(zeros if place is None else array_at(zeros, place))
        self.state.generator = True  # what draws in the body of a loop carries it from run to run
        self.device = CPU if place is None else place

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream that belongs to a seed."""
        if isinstance(seed, str):
            raise RuntimeError("manual_seed expected a long, but got str")
        if type(seed) is SymbolicInt:
            self.state.copy_(tensor([seed, 0]))
            return self
        number = int(seed)
        if not -(2**63) <= number < 2**64:
            raise ValueError(f"Overflow when unpacking long long: {number} is no seed of 64 bits")
        word = number % 2**64
        fresh = np.array([word - 2**64 if word >= 2**63 else word, 0], np.int64)
        if state.tracer is None:
            store(self.state._data, fresh)
        else:
            self.state.copy_(new_tensor(fresh))
        return self

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return int(index.concrete(self.state, "the seed was asked for")[0]) % 2**64

    def seed(self) -> int:
        """Start a stream that nobody knows; returns its seed."""
        self.manual_seed(int.from_bytes(os.urandom(8)) >> 1)
        return self.initial_seed()

    def get_state(self) -> Tensor:
        """A copy of the state: the 16 bytes of seed and offset."""
        return _state_bytes.run((self.state.cpu(),))

    def set_state(self, new_state: Tensor) -> Generator:
        """Go on from a state. Raises TypeError unless it is a tensor of bytes, RuntimeError unless there are 16."""
        if not isinstance(new_state, Tensor) or new_state.dtype is not dtypes.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if tuple(new_state.shape) != (16,):
            raise RuntimeError(f"RNG state is wrong size: a generator's has 16 bytes, this one {new_state.numel()}")
        self.state.copy_(_state_words.run((new_state.cpu(),)))
        return self

    def clone_state(self) -> Generator:
        """A generator that goes on as this one would."""
        return Generator(self.device).graphsafe_set_state(self)

    def graphsafe_get_state(self) -> Generator:
        """The generator itself, whose state goes along."""
        return self

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Go on from the state of another generator."""
        self.state.copy_(state.state)
        return self

    def __reduce__(self) -> Any:
        return _generator, (self.initial_seed(), int(index.concrete(self.state, "a generator was pickled")[1]))


def _generator(seed: int, offset: int) -> Generator:
    """A generator in the middle of its stream."""
    made = Generator().manual_seed(seed)
    made.state._data[1] = offset
    return made


_of_devices: dict[tuple[int, Device], Generator] = {}


def generator_of(device: Device) -> Generator:
    """The default stream of a device, to be drawn from or looked at."""
    if device is CPU:
        return default_generator
    found = default_of(device)
    if state.tracer is not None:
        seeding = state.tracer.seedings.pop(found, None)
        if seeding is not None:
            found.manual_seed(seeding.number)
            seeding.number = None
    return found


def default_of(device: Device) -> Generator:
    """The default stream of a device; a GPU's belongs to the seed that the CPU's got last, until it gets its own."""
    if device is NOWHERE:
        return _of_nowhere()
    from eagerjit.runtime.gpu.devices import platform

    key = (id(platform()), device)
    if key not in _of_devices:
        observation = pause_observation()
        try:
            with untraced():  # a call that is being recorded finds it as if it had been there before
                _of_devices[key] = Generator(device).manual_seed(default_generator.initial_seed())
        finally:
            resume_observation(observation)
    return _of_devices[key]


@functools.cache
def _of_nowhere() -> Generator:
    """What tensors on meta draw from: nothing comes of it."""
    return Generator(NOWHERE)


class _Seeding:
    """A stream of a device that a compiled call starts anew when it ends, unless it draws from it before."""

    number: int | None

    def __init__(self, generator: Generator, number: int):
        self.generator, self.number = generator, number

    def __call__(self) -> None:
        if self.number is not None:
            self.generator.manual_seed(self.number)


def start(generator: Generator, number: int) -> None:
    """Start a device's stream anew. In a traced call nothing is done on a device that only this would be done on."""
    tracer = state.tracer
    if tracer is None or tracer.journal is None:
        generator.manual_seed(number)
        return
    before = tracer.seedings.get(generator)
    if before is not None:
        before.number = number
        return
    tracer.seedings[generator] = seeding = _Seeding(generator, number)
    tracer.journal.call(seeding, (), {}, user_line())


def _to_bytes(words: Tensor) -> Tensor:
    """The bytes of 64-bit integers, lowest first."""
    return (words.unsqueeze(1) >> arange(0, 64, 8)).bitwise_and(255).to(dtypes.uint8).reshape(-1)


def _to_words(data: Tensor) -> Tensor:
    """64-bit integers from their bytes, lowest first."""
    return (data.reshape(-1, 8).to(dtypes.int64) << arange(0, 64, 8)).sum(1)


_state_bytes = Op("state_bytes", _to_bytes, None, differentiable=False)
_state_words = Op("state_words", _to_words, None, differentiable=False)
default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Start the default streams, of the CPU and of all devices, that belong to a seed."""
    if isinstance(seed, str):
        seed = int(seed)
    if not _of_devices:
        return default_generator.manual_seed(seed)
    number = int(seed)
    for generator in _of_devices.values():
        if generator.state._data.memory.device.platform.is_usable:  # a worker process has no use of its parent's
            start(generator, number)
    return default_generator.manual_seed(number)


def initial_seed() -> int:
    """The seed of the default stream."""
    return default_generator.initial_seed()


def seed() -> int:
    """Start the default stream anew from a seed that nobody knows; returns it."""
    return default_generator.seed()


def get_rng_state() -> Tensor:
    """A copy of the default stream's state."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Go on with the default stream from a state."""
    default_generator.set_state(new_state)


def default_streams() -> list[Generator]:
    """The default streams that there are: the CPU's, and those of devices; in a recording that of its device alone."""
    tracer = state.tracer
    if tracer is not None:
        return [default_generator, *([] if tracer.device is None else [default_of(named(tracer.device))])]
    from eagerjit.cuda.present import found

    machine = found() if _of_devices else None
    if machine is None or not machine.is_usable:  # a worker process has no use of its parent's
        return [default_generator]
    return [default_generator, *(stream for (owner, _), stream in _of_devices.items() if owner == id(machine))]


class Snapshot:
    """The states of the default streams at one time, to go on from again: of the CPU's and of some devices', or all."""

    def __init__(self, devices: frozenset[Device] | None = None):
        self._devices = devices
        self._states = {stream: stream.state.clone() for stream in self._streams()}

    def _streams(self) -> list[Generator]:
        kept = self._devices
        return [s for s in default_streams() if s is default_generator or kept is None or s.device in kept]

    def restore(self) -> None:
        """Go on with the streams from there. TraceBreak where a recording has come to a device only since."""
        for stream, before in self._states.items():
            stream.state.copy_(before)
        for stream in self._streams():
            if stream in self._states:
                continue
            if state.tracer is not None:
                raise TraceBreak("it goes back to random numbers of a device that it had not come to", user_line())
            stream.manual_seed(default_generator.initial_seed())  # as `default_of` made it


@contextlib.contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, _caller: str = "fork_rng", _devices_kw: str = "devices",
    device_type: str | None = None,
) -> Iterator[None]:  # fmt: skip
    """A context after which the default streams, of the CPU and of devices, go on as if nothing had been drawn in it.

    devices   those whose streams do; all unless told
    Raises RuntimeError for a `device_type` that is unknown.
    """
    kind = Device(device_type or "cuda").type
    if not enabled:
        yield
        return
    if devices is not None:
        devices = frozenset(wanted(Device(kind, d) if isinstance(d, int) else d) for d in devices)
    before = Snapshot(devices)
    try:
        yield
    finally:
        before.restore()
