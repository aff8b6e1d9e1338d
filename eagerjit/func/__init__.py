"""Function transforms: derivatives of functions and functions over batches, in any nesting, eager and compiled."""

from eagerjit.func.batching import vmap
from eagerjit.func.jacobians import hessian, jacfwd, jacrev
from eagerjit.func.modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from eagerjit.func.transforms import functionalize, grad, grad_and_value, jvp, linearize, vjp

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
