"""Transforms: invertible functions that know how they change densities."""

from eagerjit.distributions.transforms.composed import ComposeTransform, identity_transform
from eagerjit.distributions.transforms.elementwise import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from eagerjit.distributions.transforms.elementwise import _clipped_sigmoid as _clipped_sigmoid
from eagerjit.distributions.transforms.structure import (
    CatTransform,
    IndependentTransform,
    ReshapeTransform,
    StackTransform,
)
from eagerjit.distributions.transforms.transform import Transform
from eagerjit.distributions.transforms.transform import _InverseTransform as _InverseTransform
from eagerjit.distributions.transforms.vectors import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]
