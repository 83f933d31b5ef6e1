"""kz.func: functions that differentiate functions, and vmap, as in torch.func."""

from .function_gradients import grad, grad_and_value, jvp, vjp
from .gradients import value_and_grad
from .jacobians import hessian, jacfwd, jacrev
from .nn.functional_call import functional_call
from .vmap import vmap

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "value_and_grad",
    "vjp",
    "vmap",
]
