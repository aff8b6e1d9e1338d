"""Which devices there are, what they are, and which one a thread works on."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from eagerjit.cuda.present import absent, device_of, found, index_of, needed
from eagerjit.tensors.placement import named

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.devices import DeviceProperties
    from eagerjit.tensors.tensor import Tensor

__all__ = [
    "can_device_access_peer", "current_device", "device", "device_count", "get_arch_list", "get_device_capability",
    "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all", "init", "initial_seed",
    "ipc_collect", "is_available", "is_bf16_supported", "is_initialized", "is_tf32_supported", "manual_seed",
    "manual_seed_all", "seed", "seed_all", "set_device", "set_rng_state", "set_rng_state_all", "synchronize",
]  # fmt: skip

AMPERE = 8  # the first major version with bfloat16 and tf32


def is_available() -> bool:
    """Whether there is a device."""
    return found() is not None


def device_count() -> int:
    """How many devices there are."""
    platform = found()
    return 0 if platform is None else len(platform.devices)


def is_initialized() -> bool:
    """Whether a device has been used."""
    platform = found()
    return platform is not None and any(device.is_initialized for device in platform.devices)


def init() -> None:
    """Starts using this thread's device. Raises AssertionError where there is none."""
    device_of().activate()


def current_device() -> int:
    """The number of the device that this thread works on."""
    return needed().device().index


def set_device(device: Any) -> None:
    """Makes a device this thread's; a negative number changes nothing."""
    platform = needed()
    index = index_of(device, optional=False)
    if index is not None and index >= 0:
        platform.set_current(index)


class device(contextlib.ContextDecorator):
    """A context in which a device is this thread's. None, a negative number, or having no devices changes nothing."""

    def __init__(self, device: Any):
        self.idx = -1
        if found() is not None:
            index = index_of(device)
            self.idx = -1 if index is None else index
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            platform = needed()
            self.prev_idx = platform.here.current
            platform.set_current(self.idx)

    def __exit__(self, *exc: object) -> None:
        if self.idx >= 0:
            needed().set_current(self.prev_idx)


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Name, sizes and rates of a device (this thread's unless it is given)."""
    return device_of(device).properties


def get_device_name(device: Any = None) -> str:
    """What the maker calls a device."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The major and minor version of what a device can do."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def synchronize(device: Any = None) -> None:
    """Waits until a device has done everything that it was given."""
    device_of(device).synchronize()


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a device can read another one's memory."""
    one, other = device_of(device), device_of(peer_device)
    return one is not other and bool(one.driver.integer("cuDeviceCanAccessPeer", one.handle, other.handle))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether this thread's device computes in bfloat16."""
    return is_tf32_supported()


def is_tf32_supported() -> bool:
    """Whether this thread's device multiplies matrices in tf32."""
    return found() is not None and get_device_capability()[0] >= AMPERE


def get_arch_list() -> list[str]:
    """Architectures that code was compiled for beforehand: none, kernels are compiled for the device there is."""
    return []


def ipc_collect() -> None:
    """There is nothing to free: memory is not shared between processes."""


def _places(everywhere: bool = False, device: Any = None) -> list[Any]:
    """The name of a device, this thread's unless it is given, or of all; none where there is no device."""
    platform = found()
    if platform is None:
        return []
    chosen = platform.devices if everywhere else [device_of(None if device in ("cuda", None) else device)]
    return [named(each.index) for each in chosen]


def _generators(everywhere: bool = False, device: Any = None) -> list[Any]:
    """The default streams of random numbers there."""
    from eagerjit.generator import generator_of

    return [generator_of(place) for place in _places(everywhere, device)]


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a device's stream of random numbers. Raises AssertionError where there is no device."""
    return _generators(device=device)[0].get_state() if found() is not None else absent()  # type: ignore[no-any-return]


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Go on with a device's stream of random numbers from a state. Raises AssertionError where there is no device."""
    if found() is None:
        absent()
    _generators(device=device)[0].set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """The states of all devices' streams."""
    return [generator.get_state() for generator in _generators(True)]


def set_rng_state_all(new_states: Any) -> None:
    """Set the states of all devices' streams."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Start this thread's device's stream of random numbers that belongs to a seed; nothing where there is none."""
    _start(_places(), seed)


def manual_seed_all(seed: int) -> None:
    """Start all devices' streams that belong to a seed."""
    _start(_places(True), seed)


def _start(places: list[Any], seed: int) -> None:
    from eagerjit.generator import default_of, start

    for place in places:
        start(default_of(place), seed)


def initial_seed() -> int:
    """The seed of this thread's device's stream. Raises AssertionError where there is no device."""
    if found() is None:
        absent()
    return int(_generators()[0].initial_seed())


def seed() -> None:
    """Start this thread's device's stream from a seed that nobody knows."""
    for generator in _generators():
        generator.seed()


def seed_all() -> None:
    """Start all devices' streams from seeds that nobody knows."""
    for generator in _generators(True):
        generator.seed()
