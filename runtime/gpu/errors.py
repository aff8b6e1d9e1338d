"""What goes wrong on a device, under PyTorch's names."""

from __future__ import annotations

OUT_OF_MEMORY = 2
NOT_READY = 600


class AcceleratorError(RuntimeError):
    """The driver refused a call or the device failed; `error_code` is the driver's number for it.

    Work runs behind the host, so that a call may report what an earlier launch did.
    """

    def __init__(self, message: str, error_code: int = 0):
        super().__init__(message)
        self.error_code = error_code


class OutOfMemoryError(RuntimeError):
    """The device has no memory left for a request; the message has the figures."""
