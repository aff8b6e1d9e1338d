"""The driver's functions that are called, each with the types of its arguments, and the numbers they take.

All return a status. What only queues work or asks a quick question keeps the GIL: giving it away could cost a busy
process milliseconds, and what a launch points to stays untouched. What may wait for the device releases it.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

CONTEXT = STREAM = EVENT = MODULE = FUNCTION = GRAPH = EXECUTABLE = HOST = c_void_p
ADDRESS = c_uint64
DEVICE = ATTRIBUTE = c_int


def _quick(*arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(c_int, *arguments)


def _waiting(*arguments: Any) -> Any:
    return ctypes.CFUNCTYPE(c_int, *arguments)


PROTOTYPES: dict[str, Any] = {
    "cuInit": _waiting(c_uint),
    "cuDriverGetVersion": _quick(POINTER(c_int)),
    "cuGetErrorName": _quick(c_int, POINTER(c_char_p)),
    "cuGetErrorString": _quick(c_int, POINTER(c_char_p)),
    # -- devices and contexts -------------------------------------------------------------------------------------
    "cuDeviceGetCount": _quick(POINTER(c_int)),
    "cuDeviceGet": _quick(POINTER(DEVICE), c_int),
    "cuDeviceGetName": _quick(HOST, c_int, DEVICE),
    "cuDeviceTotalMem_v2": _quick(POINTER(c_size_t), DEVICE),
    "cuDeviceGetAttribute": _quick(POINTER(c_int), ATTRIBUTE, DEVICE),
    "cuDeviceGetUuid": _quick(HOST, DEVICE),
    "cuDeviceCanAccessPeer": _quick(POINTER(c_int), DEVICE, DEVICE),
    "cuDevicePrimaryCtxRetain": _waiting(POINTER(CONTEXT), DEVICE),
    "cuCtxSetCurrent": _quick(CONTEXT),
    "cuCtxSynchronize": _waiting(),
    # -- memory ---------------------------------------------------------------------------------------------------
    "cuMemGetInfo_v2": _quick(POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": _waiting(POINTER(ADDRESS), c_size_t),
    "cuMemFree_v2": _waiting(ADDRESS),
    "cuMemHostAlloc": _waiting(POINTER(HOST), c_size_t, c_uint),
    "cuMemFreeHost": _waiting(HOST),
    "cuMemcpyHtoDAsync_v2": _waiting(ADDRESS, HOST, c_size_t, STREAM),
    "cuMemcpyDtoHAsync_v2": _waiting(HOST, ADDRESS, c_size_t, STREAM),
    "cuMemcpyDtoDAsync_v2": _quick(ADDRESS, ADDRESS, c_size_t, STREAM),
    "cuMemcpyPeerAsync": _waiting(ADDRESS, CONTEXT, ADDRESS, CONTEXT, c_size_t, STREAM),
    "cuMemsetD8Async": _quick(ADDRESS, ctypes.c_ubyte, c_size_t, STREAM),
    "cuMemsetD16Async": _quick(ADDRESS, ctypes.c_ushort, c_size_t, STREAM),
    "cuMemsetD32Async": _quick(ADDRESS, c_uint, c_size_t, STREAM),
    "cuMemsetD2D32Async": _quick(ADDRESS, c_size_t, c_uint, c_size_t, c_size_t, STREAM),
    "cuPointerGetAttribute": _quick(HOST, c_int, ADDRESS),
    # -- streams and events ---------------------------------------------------------------------------------------
    "cuCtxGetStreamPriorityRange": _quick(POINTER(c_int), POINTER(c_int)),
    "cuStreamCreateWithPriority": _waiting(POINTER(STREAM), c_uint, c_int),
    "cuStreamDestroy_v2": _waiting(STREAM),
    "cuStreamSynchronize": _waiting(STREAM),
    "cuStreamQuery": _quick(STREAM),
    "cuStreamWaitEvent": _quick(STREAM, EVENT, c_uint),
    "cuEventCreate": _quick(POINTER(EVENT), c_uint),
    "cuEventDestroy_v2": _quick(EVENT),
    "cuEventRecord": _quick(EVENT, STREAM),
    "cuEventQuery": _quick(EVENT),
    "cuEventSynchronize": _waiting(EVENT),
    "cuEventElapsedTime": _quick(POINTER(c_float), EVENT, EVENT),
    # -- kernels --------------------------------------------------------------------------------------------------
    "cuModuleLoadData": _waiting(POINTER(MODULE), HOST),
    "cuModuleUnload": _waiting(MODULE),
    "cuModuleGetFunction": _waiting(POINTER(FUNCTION), MODULE, c_char_p),
    "cuFuncLoad": _waiting(FUNCTION),
    "cuFuncSetAttribute": _quick(FUNCTION, c_int, c_int),
    "cuFuncGetAttribute": _quick(POINTER(c_int), c_int, FUNCTION),
    "cuTensorMapEncodeTiled": _quick(
        HOST, c_int, c_uint, ADDRESS, HOST, HOST, HOST, HOST, c_int, c_int, c_int, c_int
    ),
    "cuLaunchKernel": _quick(FUNCTION, *(c_uint,) * 7, STREAM, c_void_p, c_void_p),
    # -- graphs ---------------------------------------------------------------------------------------------------
    "cuStreamBeginCapture_v2": _quick(STREAM, c_int),
    "cuStreamEndCapture": _waiting(STREAM, POINTER(GRAPH)),
    "cuThreadExchangeStreamCaptureMode": _quick(POINTER(c_int)),
    "cuStreamIsCapturing": _quick(STREAM, POINTER(c_int)),
    "cuGraphInstantiateWithFlags": _waiting(POINTER(EXECUTABLE), GRAPH, ctypes.c_ulonglong),
    "cuGraphLaunch": _quick(EXECUTABLE, STREAM),
    "cuGraphExecDestroy": _waiting(EXECUTABLE),
    "cuGraphDestroy": _waiting(GRAPH),
    "cuGraphGetNodes": _quick(GRAPH, c_void_p, POINTER(c_size_t)),
}
"""Function types by name, for an address in a library or, in tests, for a Python function."""

STREAM_NON_BLOCKING = 1
EVENT_BLOCKING_SYNC = 1
EVENT_DISABLE_TIMING = 2
HOST_ALLOC_PORTABLE = 1
FUNCTION_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
POINTER_DEVICE = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
POINTER_MEMORY_TYPE = 2  # CU_POINTER_ATTRIBUTE_MEMORY_TYPE
CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED = range(3)

# CUdevice_attribute, under the names that PyTorch's properties have
DEVICE_ATTRIBUTES = {
    "max_threads_per_block": 1,
    "shared_memory_per_block": 8,
    "warp_size": 10,
    "clock_rate": 13,
    "multi_processor_count": 16,
    "is_integrated": 18,
    "pci_bus_id": 33,
    "pci_device_id": 34,
    "memory_clock_rate": 36,
    "memory_bus_width": 37,
    "L2_cache_size": 38,
    "max_threads_per_multi_processor": 39,
    "pci_domain_id": 50,
    "major": 75,
    "minor": 76,
    "shared_memory_per_multiprocessor": 81,
    "regs_per_multiprocessor": 82,
    "is_multi_gpu_board": 84,
    "shared_memory_per_block_optin": 97,
}
