"""Errors of programs of several processes; RuntimeErrors, as PyTorch's."""

from __future__ import annotations


class DistError(RuntimeError):
    """Something that concerns several processes went wrong."""


class DistBackendError(DistError):
    """Processes could not exchange tensors."""


class DistNetworkError(DistError):
    """A process could not be reached."""


class DistStoreError(DistError):
    """A store did not have in time what was waited for."""
