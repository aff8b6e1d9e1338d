"""Names that come when they are first used: importing them would cost every program time.

A name is listed once, beside the module that defines it.
"""

from __future__ import annotations

import importlib
from types import FunctionType
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.tensors.mistakes import explained

BOTH = {
    "eagerjit.ops.strided": "diagonal diagonal_scatter as_strided as_strided_scatter",
    "eagerjit.ops.memory": "as_strided_ resize_as_ select_scatter slice_scatter",
    "eagerjit.ops.shaping": "tensor_split hsplit vsplit dsplit split_with_sizes unsafe_split unsafe_chunk "
    "unsafe_split_with_sizes movedim moveaxis narrow_copy rot90 adjoint positive broadcast_to",
    "eagerjit.ops.diagonals": "diag_embed diagflat",
    "eagerjit.ops.statistics": "var_mean std_mean nansum nanmean aminmax count_nonzero dist renorm cumsum cumprod "
    "cov corrcoef",
    "eagerjit.ops.running": "cummax cummin logcumsumexp",
    "eagerjit.ops.differences": "diff",
    "eagerjit.ops.signals": "stft istft",
    "eagerjit.ops.sorting": "sort argsort topk msort kthvalue median nanmedian mode quantile nanquantile",
    "eagerjit.ops.bins": "histc histogram isin unique bincount unique_consecutive",
    "eagerjit.ops.complexes": "conj conj_physical conj_physical_ resolve_conj resolve_neg angle is_conj is_neg",
    "eagerjit.ops.numeric": "logaddexp logaddexp2 hypot heaviside float_power ldexp isreal frexp gcd lcm "
    "bitwise_left_shift bitwise_right_shift nextafter gcd_ lcm_ ldexp_",
    "eagerjit.ops.gamma": "lgamma digamma polygamma mvlgamma i0 i0_",
    "eagerjit.ops.incomplete": "igamma igammac",
    "eagerjit.ops.products": "addmv addmv_ addr addbmm baddbmm vdot inner outer ger kron",
    "eagerjit.ops.decompositions": "det slogdet logdet inverse pinverse matrix_exp matrix_power cholesky "
    "cholesky_solve cholesky_inverse triangular_solve svd qr lu lu_solve cross",
    "eagerjit.ops.writes": "acosh_ asinh_ atanh_ copysign_ deg2rad_ rad2deg_ frac_ logit_ sinc_ xlogy_ arccosh_ "
    "arcsinh_ arctanh_ arccosh arcsinh arctanh fix_ negative_ clamp_min_ clamp_max_ nan_to_num_ clip_ arccos_ arcsin_ "
    "arctan_",
    "eagerjit.ops.draws": "bernoulli multinomial",
    "eagerjit.ops.reflectors": "geqrf orgqr ormqr",
    "eagerjit.namespace.removed": "eig lstsq solve symeig",
    "eagerjit.ops.scatter": "scatter scatter_reduce",
    "eagerjit.ops.positions": "index_add index_copy index_fill index_reduce take put take_along_dim index_put "
    "masked_scatter masked_select argwhere",
    "eagerjit.sparse.products": "smm sspaddmm",
    "eagerjit.nn.activation_functions": "prelu",
}
"""Functions of the namespace that are methods too."""

METHODS = {
    "eagerjit.tensors.dlpack": "__dlpack__ __dlpack_device__",
    "eagerjit.tensors.interchange": "__array_ufunc__ __array_function__ __array_namespace__ to_device",
    "eagerjit.ops.strided": "unfold",
    "eagerjit.ops.padding": "replace_block",
    "eagerjit.ops.memory": "squeeze_ unsqueeze_ transpose_ swapaxes_ swapdims_ t_ set_ resize_",
    "eagerjit.ops.storages": "storage storage_type untyped_storage",
    "eagerjit.ops.shaping": "fill_diagonal_",
    "eagerjit.ops.numeric": "hypot_ heaviside_ float_power_ nextafter_ bitwise_left_shift_ bitwise_right_shift_",
    "eagerjit.ops.gamma": "lgamma_ digamma_ mvlgamma_ polygamma_",
    "eagerjit.ops.incomplete": "igamma_ igammac_",
    "eagerjit.ops.writes": "subtract_ divide_ true_divide_ apply_ map_ chalf cfloat cdouble",
    "eagerjit.ops.draws": "bernoulli_ exponential_ cauchy_ log_normal_ geometric_ random_",
    "eagerjit.ops.mapped_files": "from_file",
    "eagerjit.ops.made": "new_empty_strided",
    "eagerjit.ops.products": "addmm_ addr_ addbmm_ baddbmm_",
    "eagerjit.ops.scatter": "scatter_ scatter_reduce_",
    "eagerjit.ops.positions": "index_add_ index_copy_ index_fill_ index_reduce_ put_ masked_scatter_",
    "eagerjit.ops.statistics": "cumsum_ cumprod_ renorm_",
    "eagerjit.sparse.access": "indices values crow_indices col_indices ccol_indices row_indices is_coalesced "
    "sparse_dim dense_dim _indices _values _nnz _coalesced_",
    "eagerjit.nested.components": "to_padded_tensor",
    "eagerjit.sparse.conversion": "coalesce to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr "
    "to_sparse_bsc sparse_mask",
}
"""Methods only."""

FUNCTIONS = {
    "eagerjit.ops.convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "eagerjit.ops.time_first": "conv_tbc",
    "eagerjit.ops.pooling": "avg_pool1d max_pool1d max_pool2d max_pool3d max_pool1d_with_indices",
    "eagerjit.ops.adaptive": "adaptive_avg_pool1d",
    "eagerjit.namespace.symbols": "sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum",
    "eagerjit.ops.shaping": "expand_copy permute_copy transpose_copy t_copy select_copy squeeze_copy unsqueeze_copy "
    "as_strided_copy diagonal_copy split_with_sizes_copy unfold_copy "
    "unbind_copy split_copy view_copy detach_copy alias_copy atleast_1d atleast_2d atleast_3d hstack vstack row_stack "
    "dstack column_stack cartesian_prod combinations vander broadcast_shapes broadcast_tensors "
    "unravel_index",
    "eagerjit.ops.triangles": "tril_indices triu_indices",
    "eagerjit.ops.diagonals": "block_diag",
    "eagerjit.ops.differences": "trapezoid trapz cumulative_trapezoid gradient",
    "eagerjit.ops.bins": "searchsorted bucketize",
    "eagerjit.ops.segments": "_segment_reduce histogramdd segment_reduce",
    "eagerjit.ops.compressed": "_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo",
    "eagerjit.namespace.removed": "matrix_rank",
    "eagerjit.ops.positions": "where",
    "eagerjit.namespace.settings": "use_deterministic_algorithms are_deterministic_algorithms_enabled "
    "set_deterministic_debug_mode "
    "is_deterministic_algorithms_warn_only_enabled get_deterministic_debug_mode set_float32_matmul_precision "
    "get_float32_matmul_precision set_default_device get_default_device set_default_tensor_type set_flush_denormal "
    "set_num_interop_threads get_num_interop_threads set_warn_always is_warn_always_enabled is_storage typename "
    "get_device_module compiled_with_cxx11_abi",
    "eagerjit.tensors.printing": "set_printoptions",
    "eagerjit.tensors.dlpack": "from_dlpack to_dlpack",
    "eagerjit.tensors.legacy": "FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor "
    "CharTensor ByteTensor BoolTensor",
    "eagerjit.ops.rearranging": "pixel_shuffle pixel_unshuffle channel_shuffle",
    "eagerjit.ops.complexes": "complex polar real imag view_as_real view_as_complex",
    "eagerjit.ops.contraction": "einsum tensordot",
    "eagerjit.ops.products": "chain_matmul",
    "eagerjit.ops.distances": "cdist pdist",
    "eagerjit.ops.numeric": "rsub is_complex",
    "eagerjit.ops.norms": "nuclear_norm frobenius_norm",
    "eagerjit.ops.writes": "index_put_ zero_ detach_",
    "eagerjit.ops.draws": "poisson binomial _standard_gamma _sample_dirichlet",
    "eagerjit.ops.quantized": "fake_quantize_per_tensor_affine fake_quantize_per_channel_affine",
    "eagerjit.ops.mapped_files": "from_file",
    "eagerjit.ops.made": "_shape_as_tensor empty_strided empty_permuted "
    "frombuffer scalar_tensor range fill hann_window hamming_window "
    "bartlett_window blackman_window kaiser_window",
    "eagerjit.tensors.limits": "finfo iinfo memory_format contiguous_format preserve_format channels_last "
    "channels_last_3d legacy_contiguous_format",
    "eagerjit.nn.functional": "bilinear cosine_similarity pairwise_distance rms_norm rrelu celu celu_ selu selu_ "
    "threshold_",
    "eagerjit.nn.namespace_functions": "adaptive_max_pool1d affine_grid_generator alpha_dropout alpha_dropout_ "
    "batch_norm constant_pad_nd dropout dropout_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout "
    "feature_dropout_ grid_sampler grid_sampler_2d grid_sampler_3d group_norm gru_cell instance_norm layer_norm "
    "lstm_cell rnn_relu_cell rnn_tanh_cell rrelu_",
    "eagerjit.nn.namespace_losses": "binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss "
    "hinge_embedding_loss kl_div margin_ranking_loss poisson_nll_loss triplet_margin_loss",
    "eagerjit.nn.namespace_tables": "embedding embedding_bag",
    "eagerjit.ops.fractional": "fractional_max_pool2d fractional_max_pool3d",
    "eagerjit.tensors.making": "layout jagged sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc",
    "eagerjit.ops.decompositions": "lu_unpack",
    "eagerjit.ops.storages": "StorageBase TypedStorage UntypedStorage BFloat16Storage BoolStorage ByteStorage "
    "CharStorage DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage",
    "eagerjit.ops.approximate": "svd_lowrank pca_lowrank",
    "eagerjit.sparse.construction": "sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_compressed_tensor",
    "eagerjit.sparse.products": "hspmm hsmm dsmm spmm",
    "eagerjit.nn.utils.norms": "norm_except_dim",
}
"""Functions of the namespace only."""


def _homes(*tables: dict[str, str]) -> dict[str, str]:
    return {name: module for table in tables for module, names in table.items() for name in names.split()}


_NETWORK = {
    "eagerjit.nn": "grad",
    "eagerjit.ops.distances": "pdist",
    "eagerjit.ops.padding": "pad",
    "eagerjit.ops.pooling": "avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d max_unpool1d max_unpool2d "
    "max_unpool3d max_pool2d_with_indices max_pool3d_with_indices",
    "eagerjit.ops.adaptive": "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
    "adaptive_max_pool3d",
    "eagerjit.nn.linear_losses": "linear_cross_entropy",
    "eagerjit.ops.grouped": "grouped_mm",
    "eagerjit.nn.multihead": "multi_head_attention_forward",
    "eagerjit.ops.fractional": "fractional_max_pool2d fractional_max_pool3d fractional_max_pool2d_with_indices "
    "fractional_max_pool3d_with_indices",
    "eagerjit.overrides": "has_torch_function has_torch_function_unary has_torch_function_variadic "
    "handle_torch_function",
    "eagerjit.ops.likelihood_loss": "ctc_loss gaussian_nll_loss poisson_nll_loss",
    "eagerjit.ops.margin_loss": "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss "
    "multilabel_margin_loss multilabel_soft_margin_loss soft_margin_loss triplet_margin_loss "
    "triplet_margin_with_distance_loss",
    "eagerjit.ops.rearranging": "unfold fold",
    "eagerjit.ops.time_first": "conv_tbc",
    "eagerjit.ops.resampling": "interpolate upsample upsample_nearest upsample_bilinear",
    "eagerjit.ops.sampling": "grid_sample affine_grid",
}

HOMES = _homes(BOTH, FUNCTIONS)
"""The module that defines each name of the namespace."""

_SPATIAL = ("convolution", "pooling", "adaptive", "rearranging")
_SHARED = {k: v for k, v in FUNCTIONS.items() if k.partition("ops.")[2] in _SPATIAL}
NETWORK_FUNCTIONS = _homes(_SHARED, _NETWORK)
"""The module that defines each late function of `nn.functional`."""


def load(module: str, name: str) -> Any:
    """What a module defines under a name; of an op its call."""
    value = getattr(importlib.import_module(module), name)
    if isinstance(value, Op):
        return value.call
    is_public = type(value) is FunctionType and not name.startswith("_")
    return explained(value, name, "eagerjit") if is_public else value


class LateMethod:
    """Stands for a method whose module is imported when it is first asked for."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str):
        self.module, self.name = module, name

    def __get__(self, instance: Any, owner: type) -> Any:
        function = load(self.module, self.name)
        for kind in owner.__mro__:
            for name in [name for name, value in vars(kind).items() if value is self]:
                type.__setattr__(kind, name, function)
        return function if instance is None else function.__get__(instance, owner)


def methods() -> dict[str, LateMethod]:
    """The late methods by name."""
    return {name: LateMethod(module, name) for name, module in _homes(BOTH, METHODS).items()}
