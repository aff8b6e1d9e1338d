"""What tensors say of devices, layouts and kinds of memory, and what moves them there."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from eagerjit.autograd.node import AFTER_ALL_HOOKS
from eagerjit.devices import CPU
from eagerjit.ops import views
from eagerjit.ops.index import own_array
from eagerjit.runtime import mode
from eagerjit.runtime.binding import bound
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.state import state
from eagerjit.tensors.conversion import constant_property
from eagerjit.tensors.placement import NOWHERE, device_of
from eagerjit.tensors.tensor import Tensor, new_tensor
from eagerjit.watching.observation import TraceBreak, user_line

_NEVER = "ipu maia mkldnn mps mtia nested quantized vulkan xla xpu".split()
_SPARSE = {"sparse": "sparse_coo", "sparse_csr": "sparse_csr"}


def _backward_hooks(tensor: Tensor) -> dict[int, Any] | None:
    """The hooks of `register_hook` by their handles' numbers; taking one out of the table takes it away."""
    _refuse_recording()
    bound.refresh(tensor)
    if tensor._node is None:
        return (tensor._hooks or {}).get("grad")
    hooks = (tensor._node.hooks or {}).get(tensor._index)
    if not hooks or max(hooks) < AFTER_ALL_HOOKS:
        return hooks
    return {n: hook for n, hook in hooks.items() if n < AFTER_ALL_HOOKS} or None


def _post_accumulate_hooks(tensor: Tensor) -> dict[int, Any] | None:
    """The hooks of `register_post_accumulate_grad_hook`, as those of `register_hook`."""
    _refuse_recording()
    return (tensor._hooks or {}).get("post")


def _refuse_recording() -> None:
    if state.tracer is not None:
        raise TraceBreak("it reads the hooks of a tensor", user_line())


def _base(tensor: Tensor) -> Tensor | None:
    """The tensor that this one is a view of, itself none; None for what has memory of its own or is detached."""
    if state.tracer is not None:
        state.tracer.guard_base(tensor)
    root = tensor
    while root._view is not None and not root._view.op.detaches:
        root = root._view.base
    return None if root is tensor else root


def _retains_grad(tensor: Tensor) -> bool:
    """Whether `retain_grad` was asked of a tensor that is no leaf."""
    return not tensor.is_leaf and bool((tensor._hooks or {}).get("retained"))


def _output_nr(tensor: Tensor) -> int:
    """Which result of its operation the tensor is."""
    return 0 if tensor.is_leaf else tensor._index


PROPERTIES: dict[str, property] = {
    "_base": property(_base),
    **{f"is_{kind}": constant_property(False, f"Whether the tensor is of kind {kind}: never.") for kind in _NEVER},
    **{f"is_{n}": constant_property(False, f"Whether the layout is `{layout}`.") for n, layout in _SPARSE.items()},
    "is_cpu": property(lambda self: device_of(self) is CPU, doc="Whether the tensor lives on the CPU."),
    "is_cuda": property(lambda self: device_of(self).type == "cuda", doc="Whether the tensor lives on a CUDA device."),
    "is_meta": property(lambda self: device_of(self) is NOWHERE, doc="Whether the tensor has no memory."),
    "retains_grad": property(_retains_grad),
    "_backward_hooks": property(_backward_hooks),
    "_post_accumulate_grad_hooks": property(_post_accumulate_hooks),
    "__cuda_array_interface__": property(lambda self: _interface(self), doc="What libraries for devices read."),
    "output_nr": property(_output_nr),
    "name": property(lambda self: None, doc="None: tensors have no names."),
}


def _interface(tensor: Tensor) -> dict[str, Any]:
    from eagerjit.tensors.dlpack import cuda_array_interface  # few programs need it

    return cuda_array_interface(tensor)


def get_device(input: Tensor) -> int:
    """The number of the tensor's device; -1 for the CPU."""
    index = device_of(input).index
    return -1 if index is None else index


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in pinned memory, which devices read and write while the host goes on; itself where there is no device.

    Raises RuntimeError for a tensor that lies on a device.
    """
    from eagerjit.cuda.present import found

    if device_of(self) is not CPU:
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    platform = found()
    if platform is None or is_pinned(self):
        return self
    return new_tensor(_pinned_copy(own_array(self, "a tensor was copied to pinned memory"), platform.device()))


def _pinned_copy(array: np.ndarray, device: Any) -> np.ndarray:
    from eagerjit.runtime.gpu.memory import PinnedMemory

    made = PinnedMemory(array.nbytes, device).array(array.shape, array.dtype)
    made[...] = array
    return made


def record_stream(self: Tensor, stream: Any) -> None:
    """Work in another stream uses the tensor: its memory is not used again before that stream is done with it."""
    array = own_array(self, "a tensor was used in another stream")
    if isinstance(array, DeviceArray):
        array.memory.record_stream(stream._stream)


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the tensor lies in pinned memory."""
    from eagerjit.runtime.gpu.memory import pinned_memory_of

    array = own_array(self, "a tensor's memory was asked about")
    return not isinstance(array, DeviceArray) and pinned_memory_of(array) is not None


def is_shared(self: Tensor) -> bool:
    """Whether other processes can see what is written to the tensor: always for one on a device, as in PyTorch."""
    owner = own_array(self, "a tensor's memory was asked about")
    if isinstance(owner, DeviceArray):
        return device_of(self) is not NOWHERE
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    base = owner.base.obj if isinstance(owner.base, memoryview) else owner.base
    return isinstance(base, mmap.mmap)


def share_memory_(self: Tensor) -> Tensor:
    """Move the tensor into memory that processes forked from now on share; one on a device stays where it is."""
    array = own_array(self, "a tensor was moved to shared memory")
    if device_of(self) is NOWHERE:
        raise RuntimeError("_share_fd_: only available on CPU")
    if array.size and not is_shared(self):
        shared = np.frombuffer(mmap.mmap(-1, array.nbytes), array.dtype).reshape(array.shape)
        shared[...] = array
        self._data = shared
    return self


def is_distributed(input: Tensor) -> bool:
    """False."""
    return False


def is_inference(input: Tensor) -> bool:
    """False: tensors made in inference mode are like others."""
    return False


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return input.dtype.is_signed


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether shapes are equal."""
    return bool(input.shape == other.shape)


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same view of the same memory."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"is_set_to(): argument 'tensor' (position 1) must be Tensor, not {type(tensor).__name__}")
    mine, other = (own_array(t, "a tensor's memory was asked about") for t in (self, tensor))
    same = (mine.ctypes.data, mine.shape, mine.strides, mine.dtype)
    return same == (other.ctypes.data, other.shape, other.strides, other.dtype)


def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not zero."""
    return bool(input)


def as_subclass(self: Tensor, cls: type) -> Any:
    """The same memory as an instance of a subclass of Tensor."""
    if not issubclass(cls, Tensor):
        raise TypeError("as_subclass(): cls must be a subclass of Tensor")
    if state.tracer is not None and not state.tracer.asks_classes:
        raise TraceBreak(f"a tensor was made a {cls.__name__}", user_line())
    plain = mode.set_plain(True)
    try:
        view = views.alias(self)
    finally:
        mode.set_plain(plain)
    try:
        view.__class__ = cls
        return view
    except TypeError:
        if state.tracer is not None:
            raise TraceBreak(f"a tensor was made a {cls.__name__}, whose class has slots", user_line()) from None
        made = new_tensor(view._data, cls)
    made._requires_grad, made._node, made._index = view._requires_grad, view._node, view._index
    made._storage, made._view = view._storage, view._view
    made._storage.register(made)
    return made


def make_subclass(
    cls: type, data: Tensor, require_grad: bool = False, *, dispatch_sizes_strides_policy: Any = None,
    dispatch_device: bool = False, dispatch_layout: bool = False,
) -> Any:  # fmt: skip
    """`Tensor._make_subclass`: a leaf of a subclass over a tensor's memory."""
    made = as_subclass(views.detach(data), cls)
    made._requires_grad = bool(require_grad)
    return made


def make_wrapper_subclass(cls: type, size: Any, *options: Any, **named: Any) -> Any:
    """`Tensor._make_wrapper_subclass`: refused."""
    raise NotImplementedError(
        f"{cls.__name__}: a tensor without memory, whose operations go to __torch_dispatch__, is not supported: "
        "eagerjit asks __torch_function__ alone"
    )


def new(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """A tensor of this dtype in the same place, as the constructor makes them: of some sizes or of data."""
    from eagerjit.tensors.legacy import construct

    return construct(self.dtype, *args, **{"device": device_of(self), **kwargs})


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
    """The tensor itself, as all are dense; in another dtype on request."""
    return self if dtype is None else self.to(dtype)


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """`reshape`, under the name it had; also of the same number of elements only."""
    if not sizes:
        raise TypeError("resize(): sizes are missing")
    return views.reshape(self.contiguous(), *sizes)


FUNCTIONS = {f.__name__: f for f in (get_device, is_distributed, is_inference, is_signed, is_same_size, is_nonzero)}
METHODS: dict[str, Any] = {
    **{f.__name__: f for f in (
        pin_memory, is_pinned, record_stream, is_shared, share_memory_, is_set_to, as_subclass, new, resize, to_dense,
    )},
    "_make_subclass": staticmethod(make_subclass), "_make_wrapper_subclass": staticmethod(make_wrapper_subclass),
    "_is_view": lambda self: self._base is not None,
}  # fmt: skip
