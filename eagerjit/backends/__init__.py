"""Libraries that operations may use, with the switches programs set: none changes a result here."""

from eagerjit.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, nnpack, openmp, opt_einsum

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum"]
