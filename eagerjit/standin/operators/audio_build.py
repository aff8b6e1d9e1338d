"""What torchaudio asks about how it was built."""


def is_align_available() -> bool:
    """`forced_align` is there."""
    return True


def cuda_version() -> None:
    """Nothing here was compiled for some version of CUDA."""


OPERATORS = {"is_align_available": is_align_available, "cuda_version": cuda_version}
