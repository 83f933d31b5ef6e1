"""Optimisers, whose step() stands in a compiled function, and learning rates as functions of the step."""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import TYPE_CHECKING, Any, Iterable, Set, Tuple

import numpy

from . import _core
from ._core import clip_by_global_norm, constant_schedule, cosine_schedule, linear_schedule, step_schedule
from .errors import TypeError, UserError
from .gradients import gradients
from .nn.module import Module
from .nn.parameter import Parameter
from .pointwise import tensor_of

__all__ = [
    "EMA",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Lion",
    "RMSprop",
    "clip_by_global_norm",
    "constant_schedule",
    "cosine_schedule",
    "linear_schedule",
    "step_schedule",
]


GROUPS = (
    "there are no parameter groups: opt.lr = ... sets the learning rate, and parameters with settings of their own take an optimiser of their own, "
    "several of which may step in one function"
)


@functools.lru_cache(maxsize=None)
def _settings(kind: Any) -> Set[str]:
    """What the constructor of this package's optimiser takes beside its parameters."""
    ours = next(one for one in kind.__mro__ if one.__module__ == __name__)
    return set(inspect.signature(ours.__init__).parameters) - {"self", "params", "core", "counts"}


class _FixedSettings:
    """Whatever the traced program holds of an optimiser cannot be set afterwards; an attribute that nothing reads is no place for it."""

    if not TYPE_CHECKING:  # which would take any name then

        def __setattr__(self, name: str, value: Any) -> None:
            kind, ours = type(self), type(self).__module__ == __name__
            if name in _settings(kind) and not hasattr(kind, name):
                raise AttributeError(
                    f"{kind.__name__}.{name} cannot be set: it is part of the update that kz.compile traces{', of which lr alone may change' * hasattr(kind, 'lr')}. "
                    f"Make another one, {'kz.optim.' * ours}{kind.__name__}(..., {name}={value!r:.40}), and compile a step with it"
                )
            if (
                name in ("params", "state", "defaults")
                or ours
                and not name.startswith("_")
                and not hasattr(kind, name)
                and name != "param_groups"
            ):
                raise AttributeError(
                    f"{kind.__name__}.{name} cannot be set: an optimiser is made with its parameters, and kz.load and kz.save read and write its state"
                )
            object.__setattr__(self, name, value)


class Optimizer(_FixedSettings):
    """What all have: step(), zero_grad(), and lr, which may change between calls and compiles nothing."""

    def __init__(self, params: Any, core: Any, counts: bool = False) -> None:
        vars(self).update(params=params, _core=core)
        self._counts, self._stepped = (
            counts,
            None,
        )  # whether the update reads how many steps there were; which parameters the first function steps

    @property
    def param_groups(self) -> Any:
        """PyTorch's; not here."""
        raise AttributeError(f"{type(self).__name__}.param_groups: {GROUPS}")

    @param_groups.setter
    def param_groups(self, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.param_groups: {GROUPS}")

    @property
    def lr(self) -> Any:
        """The learning rate of the calls from here on."""
        return self._core.lr

    @lr.setter
    def lr(self, value: Any) -> Any:
        self._core.lr = value

    def step(self, grads: Any = None) -> None:
        """Updates the parameters by p.grad, or by these gradients, one for each. In a function that is being compiled.

        A parameter without a gradient (None, or one of kz.grad that the loss does not depend on) stays as it is, with its state.
        """
        if grads is None:
            found = gradients()
            if found is None:
                raise UserError(
                    "step() outside of a compiled function: an update is a part of the program that kz.compile traces"
                )
            if not any(p._identity in found for p in self.params):
                raise UserError(
                    "step(): no parameter of this optimiser has a gradient; loss.backward() comes first, on a loss that reads them"
                )
            grads = [found.get(p._identity) for p in self.params]
        grads = list(grads)
        if self._counts and len(grads) == len(self.params):
            self._check_count([number for number, value in enumerate(grads) if value is not None])
        self._core.step([_gradient(number, value) for number, value in enumerate(grads)])

    def _check_count(self, stepping: Any) -> None:
        """PyTorch counts the steps of each parameter; here there is one count, which is the same as long as all are stepped together."""
        if self._stepped is None:
            self._stepped = stepping
        elif self._stepped != stepping:
            apart = [self.params[number].name for number in sorted(set(self._stepped) ^ set(stepping))]
            names = ", ".join(apart[:4]) + (f" and {len(apart) - 4} more" if len(apart) > 4 else "")
            warnings.warn(
                f"{type(self).__name__}: steps of {len(stepping)} and of {len(self._stepped)} parameters ({names} in one of both alone) count as "
                "one, so that bias corrections differ from PyTorch's, which counts for each parameter. An optimiser of their own, with name=, counts apart",
                stacklevel=3,
            )
            self._stepped = stepping

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets gradients. They never outlive a call of the compiled function, so that there it is needed only between two backward()."""
        for p in self.params if gradients() is not None else ():
            p.grad = None


def _gradient(number: int, value: Any) -> Any:
    if value is None:
        return _core.Tensor()
    if isinstance(value, _core.Tensor):
        return value
    if isinstance(value, numpy.ndarray):
        return tensor_of(value)
    raise TypeError(f"step: gradient {number} is of type {type(value).__name__}; a tensor or a NumPy array is wanted")


def _checked_parameters(kind: str, params: Any) -> Any:
    """Of parameters, or of (name, parameter)."""
    if isinstance(params, (_core.Tensor, Module, str)) or not isinstance(params, Iterable):
        hint = "net.parameters()" if isinstance(params, Module) or callable(params) else "[w]"
        raise TypeError(f"{kind} takes a list of parameters, {hint}, not one {type(params).__name__}")
    params = [p[1] if isinstance(p, tuple) and len(p) == 2 else p for p in params]
    seen: Set[int] = set()
    for p in params:
        if isinstance(p, dict):
            raise UserError(f"{kind}: {GROUPS}")
        if not isinstance(p, Parameter):
            raise TypeError(f"{kind} takes parameters, not a {type(p).__name__}; nn.Parameter(array) makes one")
        if id(p) in seen:
            raise UserError(f"{kind}: {p!r} is listed twice and would step twice; net.parameters() lists each once")
        seen.add(id(p))
    for p in params:
        p._adaptable = False
    return params


class SGD(Optimizer):
    """m = momentum m + (g + weight_decay w); w = w - lr m, or with nesterov w - lr (g + momentum m). Without momentum there is no m."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        name: str = "sgd",
    ) -> None:
        if dampening:
            raise UserError(f"SGD: dampening={dampening}; only 0 is possible")
        params = _checked_parameters("SGD", params)
        super().__init__(params, _core.SGD(params, lr, momentum, weight_decay, nesterov, name))


class Adam(Optimizer):
    """Kingma and Ba (2015), with bias correction."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: Tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        name: str = "adam",
    ) -> None:
        params = _checked_parameters("Adam", params)
        super().__init__(params, _core.Adam(params, lr, betas, eps, weight_decay, False, name), counts=True)


class AdamW(Optimizer):
    """Adam whose weight decay does not pass through the moments: w = w - lr (step + weight_decay w)."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: Tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        name: str = "adamw",
    ) -> None:
        params = _checked_parameters("AdamW", params)
        super().__init__(params, _core.Adam(params, lr, betas, eps, weight_decay, True, name), counts=True)


class RMSprop(Optimizer):
    """v = alpha v + (1 - alpha) g^2; w = w - lr g / (sqrt(v) + eps); centred and with momentum as PyTorch's."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        name: str = "rmsprop",
    ) -> None:
        params = _checked_parameters("RMSprop", params)
        super().__init__(params, _core.RMSprop(params, lr, alpha, eps, weight_decay, momentum, centered, name))


class Adagrad(Optimizer):
    """s = s + g^2; w = w - lr / (1 + step lr_decay) g / (sqrt(s) + eps). Duchi, Hazan and Singer, 2011."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        name: str = "adagrad",
    ) -> None:
        params = _checked_parameters("Adagrad", params)
        super().__init__(
            params,
            _core.Adagrad(params, lr, lr_decay, weight_decay, initial_accumulator_value, eps, name),
            counts=lr_decay > 0,
        )


class Lion(Optimizer):
    """w = w - lr (sign(b1 m + (1 - b1) g) + weight_decay w); m = b2 m + (1 - b2) g. Chen et al., 2023."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-4,
        betas: Tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        name: str = "lion",
    ) -> None:
        params = _checked_parameters("Lion", params)
        super().__init__(params, _core.Lion(params, lr, betas, weight_decay, name))


class EMA(_FixedSettings):
    """An average of parameters that forgets at a constant rate: ema = decay ema + (1 - decay) w. update() stands behind the optimiser's step()."""

    def __init__(self, params: Any, decay: float, *, name: str = "ema") -> None:
        vars(self).update(_core=_core.EMA(_checked_parameters("EMA", params), decay, name))

    def update(self) -> None:
        """Takes the parameters as they are now. In a function that is being compiled."""
        self._core.update()

    def averages(self) -> Any:
        """The averages, in the order of the parameters."""
        return self._core.averages()
