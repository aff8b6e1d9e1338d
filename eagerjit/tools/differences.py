"""What differs from PyTorch, and why: the one place where that is declared. The API page prints it."""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """Names of torch that differ, how, and the reason."""

    names: str
    what: str
    why: str


DIFFERENCES = (
    Difference(
        "randn, rand, randperm, dropout, init.*",
        "the same seed gives other numbers than in PyTorch",
        "numbers are Philox words at an element's position, so that eager and compiled runs agree bit for bit",
    ),
    Difference(
        "get_rng_state, Generator.get_state",
        "16 bytes, which PyTorch's 5056 cannot be loaded into",
        "the state is a seed and an offset",
    ),
    Difference(
        "layout=, sparse_coo_tensor, to_sparse",
        "COO, CSR and CSC; no blocks and no batches of compressed matrices. The gradient of a sparse leaf is always "
        "sparse (PyTorch's is dense after `torch.mm`); more operations have gradients than in PyTorch",
        "a sparse tensor's gradient is that of its values",
    ),
    Difference(
        "torch.nested",
        "more operations and gradients than in PyTorch: along rows, causal attention, dense operands beside `strided`",
        "a nested tensor's gradient is that of its values; compiled functions run eagerly where they meet one",
    ),
    Difference(
        "complex32, quint8, qint8, qint32, int4, bits8 and their like",
        "may be named, compared and passed on; asking for tensors of them raises NotImplementedError",
        "no kernels compute with them",
    ),
    Difference(
        "memory_format=, channels_last",
        "the strides along dimensions of one element do not tell a format: one channel, or channels of one point, are "
        "row-major, and what else is computed of them is",
        "no recording keeps such strides",
    ),
    Difference(
        "empty",
        "holds zeros in compiled functions",
        "memory of unknown contents would differ from call to call",
    ),
    Difference(
        "inference_mode",
        "its tensors are like others: they may be used with gradients and written in place later",
        "recording costs little enough to need no tensors of another kind",
    ),
    Difference(
        "func.grad, vjp, jvp, vmap",
        "`requires_grad_`, `retain_grad` and `backward` may be called inside, where PyTorch raises RuntimeError; "
        "`requires_grad` is True in plain calls of what depends on a tensor whose flag was set inside",
        "transforms start from aliases on the one tape, which knows no levels",
    ),
    Difference(
        "views made in `no_grad`",
        "`requires_grad` is False; PyTorch 2.13 says True of views of what requires grad. What requires grad may be "
        "written to one of a tensor that requires none; PyTorch refuses it",
        "no gradient flows through such a view in either library",
    ),
    Difference(
        "unique, unique_consecutive; sum, prod, cumsum, cumprod with a dtype of integers",
        "of what requires grad: results require none; PyTorch's of `unique` do, and `backward` raises, the others "
        "raise RuntimeError",
        "results without gradients need no history, and compile",
    ),
    Difference(
        "split, chunk, unbind",
        "a part written in `no_grad` may be used with gradients again; PyTorch refuses the use",
        "a part's history is that of the memory it shows; writes with gradients are refused in both libraries",
    ),
    Difference(
        "unsafe_split, unsafe_chunk",
        "parts are views that may be written in place, and writes reach the whole's gradient",
        "there is one kind of view",
    ),
    Difference(
        "arithmetic with Python integers beyond 64 bits",
        "OverflowError with tensors of integers, where PyTorch computes with unsigned numbers",
        "numbers are passed to kernels as signed integers or floats",
    ),
    Difference(
        "fill_ of float16 with too large a number",
        "RuntimeError whatever the size; PyTorch's gives infinity for a single element",
        "the check comes before the size is looked at",
    ),
    Difference(
        "autograd.graph.saved_tensors_hooks",
        "hooks see operations' arguments and results; what custom functions save is not seen",
        "nodes of the tape keep what they were called with, and these keep it otherwise",
    ),
    Difference(
        "autograd.detect_anomaly",
        "the warning names the forward line rather than its whole traceback; compiled functions run eagerly meanwhile",
        "a node keeps a place in the code, and no stack",
    ),
    Difference(
        "compile, compiler.*, _dynamo, _inductor",
        "`compile` is `jit`; options and settings are accepted and change nothing; "
        "`is_compiling()` is True within `onnx.export` and `export.export` alone",
        "compiling never changes a result, so there is nothing to choose",
    ),
    Difference(
        "jit.script, jit.freeze, jit.trace of functions",
        "give the function or Module back; `jit.save` writes Modules that were traced, not those that were scripted",
        "there is no second language: a file holds a recorded call",
    ),
    Difference(
        "export, jit.save",
        "files are eagerjit's own; graphs call the library's ops, and have no in-place ones but for buffers at the end",
        "what is recorded are values; writes are put together",
    ),
    Difference(
        "fx",
        "functions of the library that were imported by name before are noted in the traced module's globals only",
        "tracing replaces names of `torch` and `torch.nn.functional`, as there is no dispatch on subclasses",
    ),
    Difference(
        "utils.flop_counter",
        "attention counts as PyTorch's does on a GPU, where on a CPU PyTorch counts nothing for it; of a long causal "
        "one on a CPU what is computed counts; recurrent layers count as their products",
        "an operation's count is that of the products in it",
    ),
    Difference(
        "distributed",
        "the backend is gloo, over TCP; no fsdp, DTensor, rpc; is_available() is True for one of several processes",
        "packages import what there is not where it is True",
    ),
    Difference(
        "utils.tensorboard",
        "float16, bfloat16 and uint8 tensors, sizes of rescaled pictures and `label_img` of uint8 are written as "
        "TensorBoard reads them; `add_video` needs Pillow and no moviepy; the nodes of `add_graph` are calls of public "
        "functions; `add_onnx_graph` raises",
        "PyTorch's cannot be read back, or are black and white; a Module is run rather than traced",
    ),
    Difference(
        "mps, xpu, mtia",
        "no such device holds tensors: asking says so, using one raises",
        "kernels are compiled for CPUs and for CUDA devices",
    ),
    Difference(
        "cuda",
        "what no kernel computes (decompositions, loops of `cond`, `scan` and `while_loop`) runs on "
        "the host, with copies",
        "programs run whatever they use; kernels for these are not written",
    ),
    Difference(
        "manual_seed on a device",
        "draws on a device are those that the CPU makes after the same seed; PyTorch's differ",
        "numbers are Philox words at an element's position, wherever it lies",
    ),
    Difference(
        "hub",
        "loads files that are there and downloads nothing",
        "a library that computes does not open connections",
    ),
    Difference(
        "quantized dtypes, complex32, `masked.MaskedTensor`, quantized recurrent layers",
        "missing; a layer of `quantize_dynamic` has its weights as a tensor of integers, `stored`, and their `scale`",
        "there are no kernels for them",
    ),
    Difference(
        "float8 dtypes",
        "computed by NumPy but for `_scaled_mm`; functions with them run eagerly under `jit`",
        "they are for storage and for scaled products, whose kernels read their bits",
    ),
    Difference(
        "decompositions; products and orders of complex numbers",
        "computed by NumPy; functions with the latter run eagerly under `jit`",
        "kernels compute with real and imaginary parts",
    ),
    Difference(
        "lr_scheduler.*.step, Module.train, Module.eval",
        "a jitted function that calls one runs eagerly, after a warning",
        "they change Python objects that guards are about; call them outside",
    ),
    Difference(
        "messages of errors",
        "the class is PyTorch's, the text need not be; it names the operation, shapes and, compiled, the line",
        "texts are part of no contract",
    ),
    Difference(
        "last bits of results",
        "may differ: tests hold float32 to a few units in the last place, sums and products to 2e-5",
        "elementary functions are own polynomials, and orders of summation are fixed by sizes",
    ),
)
