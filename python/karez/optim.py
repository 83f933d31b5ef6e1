"""Optimisers, whose step() is called in a compiled function, and learning rate schedules."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy

from . import _core
from ._core import clip_by_global_norm, constant_schedule, cosine_schedule, linear_schedule, step_schedule
from .differences import see_difference
from .errors import TypeError, UserError
from .nn.module import Module
from .nn.parameter import Parameter
from .pointwise import tensor_of
from .recording import gradients
from .type_aliases import Tensor

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
    "parameter groups are not supported: set opt.lr for the learning rate, and use another optimiser for parameters "
    "with other settings; several optimisers may step in one function" + see_difference("parameter groups")
)


@functools.cache
def _settings(kind: Any) -> set[str]:
    """The names of the constructor's arguments, except for the parameters to optimise."""
    defining_class = next(item for item in kind.__mro__ if item.__module__ == __name__)
    return set(inspect.signature(defining_class.__init__).parameters) - {"self", "params", "core", "counts"}


class _FixedSettings:
    """Rejects assignments to settings that the traced program holds, and to attributes that nothing reads."""

    if not TYPE_CHECKING:  # for a type checker, __setattr__ would make every attribute name valid

        def __setattr__(self, name: str, value: Any) -> None:
            kind, is_karez_class = type(self), type(self).__module__ == __name__
            if name in _settings(kind) and not hasattr(kind, name):
                raise AttributeError(
                    f"{kind.__name__}.{name} cannot be set: it is part of the update that kz.compile "
                    f"traces{', of which only lr may change' * hasattr(kind, 'lr')}. "
                    f"Create a new one, {'kz.optim.' * is_karez_class}{kind.__name__}(..., {name}={value!r:.40}), and "
                    "compile a step with it" + see_difference("settings of an optimiser")
                )
            if (
                name in ("params", "state", "defaults")
                or is_karez_class
                and not name.startswith("_")
                and not hasattr(kind, name)
                and name != "param_groups"
            ):
                raise AttributeError(
                    f"{kind.__name__}.{name} cannot be set: an optimiser is created with its parameters, and kz.load "
                    "and kz.save read and write its state"
                )
            object.__setattr__(self, name, value)


class Optimizer(_FixedSettings):
    """The base class of optimisers, with step(), zero_grad() and lr. lr may change between calls without a retrace."""

    params: list[Parameter]
    _core: Any

    def __init__(self, params: Any, core: Any, counts: bool = False) -> None:
        vars(self).update(params=params, _core=core)
        # `_counts`: whether the update reads the step count. `_stepped`: the parameters of the latest traced step.
        self._counts, self._stepped = counts, None

    @property
    def param_groups(self) -> NoReturn:
        """PyTorch's parameter groups, which Karez does not support."""
        raise AttributeError(f"{type(self).__name__}.param_groups: {GROUPS}")

    @param_groups.setter
    def param_groups(self, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.param_groups: {GROUPS}")

    @property
    def lr(self) -> Any:
        """The learning rate that the next calls use."""
        return self._core.lr

    @lr.setter
    def lr(self, value: Any) -> None:
        self._core.lr = value

    def step(self, grads: Any = None) -> None:
        """Updates the parameters with p.grad, or with the given gradients, one for each parameter.

        A parameter without a gradient (p.grad is None, or the loss does not depend on it) and its state are unchanged.
        """
        if grads is None:
            found = gradients()
            grads = [p.grad for p in self.params]
            if all(value is None for value in grads):
                raise UserError(
                    "step(): no parameter of this optimiser has a gradient; call loss.backward() first, on a loss "
                    "that depends on them"
                )
            if found is not None:
                found.note_step(self.params)
        elif isinstance(grads, (_core.Tensor, numpy.ndarray)) or not isinstance(grads, Iterable):
            raise TypeError(
                f"step: expected a list of gradients, one for each parameter, got a {type(grads).__name__}; to train "
                "on a loss, call loss.backward() and then step()"
            )
        grads = list(grads)
        if self._counts and len(grads) == len(self.params):
            self._check_count([number for number, value in enumerate(grads) if value is not None])
        self._core.step([_gradient(number, value) for number, value in enumerate(grads)])

    def _check_count(self, stepping: Any) -> None:
        """Warns if the step count differs from PyTorch's. PyTorch counts the steps of each parameter. Here all
        parameters share one count, which equals PyTorch's as long as all parameters are stepped together."""
        if self._stepped is None:
            self._stepped = stepping
        elif self._stepped != stepping:
            unshared = [self.params[number].name for number in sorted(set(self._stepped) ^ set(stepping))]
            names = ", ".join(unshared[:4]) + (f" and {len(unshared) - 4} more" if len(unshared) > 4 else "")
            warnings.warn(
                f"{type(self).__name__}: steps of {len(stepping)} and of {len(self._stepped)} parameters ({names} in "
                "only one of them) share one count, so bias corrections differ from PyTorch's, which counts the steps "
                "of each parameter. A second optimiser, created with name=, has its own count",
                stacklevel=3,
            )
            self._stepped = stepping

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Discards gradients. In a compiled function whose gradients an optimiser uses it is needed only between two
        calls of backward(), and if calls of other functions have left gradients: those that an optimiser has used in
        the function do not outlive its call."""
        for p in self.params:
            p.grad = None


def _gradient(number: int, value: Any) -> _core.Tensor:
    if value is None:
        return _core.Tensor()
    if isinstance(value, _core.Tensor):
        return value
    if isinstance(value, numpy.ndarray):
        return tensor_of(value)
    raise TypeError(f"step: gradient {number} must be a tensor or a NumPy array, got {type(value).__name__}")


def _checked_parameters(kind: str, params: Any) -> list[Parameter]:
    """The parameters, from a list of parameters or of (name, parameter) pairs."""
    if isinstance(params, (_core.Tensor, Module, str)) or not isinstance(params, Iterable):
        hint = "net.parameters()" if isinstance(params, Module) or callable(params) else "[w]"
        raise TypeError(f"{kind}: expected a list of parameters, {hint}, got a {type(params).__name__}")
    parameters: list[Parameter] = [p[1] if isinstance(p, tuple) and len(p) == 2 else p for p in params]
    seen: set[int] = set()
    for p in parameters:
        if isinstance(p, dict):
            raise UserError(f"{kind}: {GROUPS}")
        if not isinstance(p, Parameter):
            raise TypeError(f"{kind}: expected parameters, got a {type(p).__name__}; nn.Parameter(array) creates one")
        if id(p) in seen:
            raise UserError(
                f"{kind}: {p!r} is listed twice and would step twice; net.parameters() lists each once"
                + see_difference("parameter groups")
            )
        seen.add(id(p))
    for p in parameters:
        p._adaptable = False
    return parameters


class SGD(Optimizer):
    """m = momentum * m + (g + weight_decay * w); w = w - lr * m, or with nesterov w - lr * (g + momentum * m), where g
    includes weight_decay * w. With momentum 0, m is not stored."""

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
            raise UserError(f"SGD: dampening must be 0, got {dampening}")
        params = _checked_parameters("SGD", params)
        super().__init__(params, _core.SGD(params, lr, momentum, weight_decay, nesterov, name))


class Adam(Optimizer):
    """Adam with bias correction (Kingma and Ba, 2015)."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        name: str = "adam",
    ) -> None:
        params = _checked_parameters("Adam", params)
        super().__init__(params, _core.Adam(params, lr, betas, eps, weight_decay, False, name), counts=True)


class AdamW(Optimizer):
    """Adam with decoupled weight decay: w = w - lr * (step + weight_decay * w), where step is that of Adam."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        name: str = "adamw",
    ) -> None:
        params = _checked_parameters("AdamW", params)
        super().__init__(params, _core.Adam(params, lr, betas, eps, weight_decay, True, name), counts=True)


class RMSprop(Optimizer):
    """v = alpha * v + (1 - alpha) * g^2; w = w - lr * g / (sqrt(v) + eps); centered and momentum are as in PyTorch."""

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
    """s = s + g^2; w = w - lr / (1 + step * lr_decay) * g / (sqrt(s) + eps) (Duchi, Hazan and Singer, 2011)."""

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
    """w = w - lr * (sign(b1 * m + (1 - b1) * g) + weight_decay * w); m = b2 * m + (1 - b2) * g, where betas = (b1, b2)
    (Chen et al., 2023)."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        name: str = "lion",
    ) -> None:
        params = _checked_parameters("Lion", params)
        super().__init__(params, _core.Lion(params, lr, betas, weight_decay, name))


class EMA(_FixedSettings):
    """An exponential moving average of parameters: ema = decay * ema + (1 - decay) * w. Call update() after
    the optimiser's step()."""

    _core: _core.EMA

    def __init__(self, params: Any, decay: float, *, name: str = "ema") -> None:
        vars(self).update(_core=_core.EMA(_checked_parameters("EMA", params), decay, name))

    def update(self) -> None:
        """Updates the averages with the current parameters. Call it in compiled functions only."""
        self._core.update()

    def averages(self) -> list[Tensor]:
        """The averages, in the order of the parameters."""
        return self._core.averages()
