"""functional_call: calls a module with other tensors in the place of its parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from ..errors import NameError, TypeError, UserError
from ..type_aliases import Tensor
from ..user_line import _at
from .hooks import ATTRIBUTES
from .module import Module, _named_tensors
from .parameter import Parameter

Values = Mapping[str, Any]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Union[Values, Sequence[Values]],
    args: Any = None,
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls module(*args, **kwargs), in which the given tensors stand for parameters and buffers, as
    torch.func.functional_call. The dictionary, or a sequence of dictionaries, has tensors by the names that
    named_parameters and named_buffers list; other parameters keep their values. A single argument need not be in a
    tuple.

    A tied parameter is replaced under all its names, unless tie_weights=False. With strict=True each parameter and
    buffer must be given. Gradients with respect to the tensors are those of any other tensor.
    """
    values = _merged(parameter_and_buffer_dicts)
    named = dict(_named_tensors(module, "", []))
    unknown = [name for name in values if name not in named]
    if unknown:
        raise NameError(
            f"functional_call: {type(module).__name__} has no parameter or buffer {unknown[0]!r}; it has "
            f"{', '.join(list(named)[:8]) or 'none'}{_at()}"
        )
    replacements: dict[int, Any] = {id(named[name]): value for name, value in values.items()}
    missing = [name for name, p in named.items() if name not in values and not (tie_weights and id(p) in replacements)]
    if strict and missing:
        raise NameError(f"functional_call: strict=True, but the value of {missing[0]!r} is missing{_at()}")
    if tie_weights:
        for name, p in named.items():
            if name in values and replacements[id(p)] is not values[name]:
                raise UserError(
                    f"functional_call: {name!r} is tied to another parameter for which a different tensor is given; "
                    f"pass the same tensor for both, or tie_weights=False{_at()}"
                )
    changed: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for path, owner in module.named_modules():
            attributes = vars(owner)
            for name, value in list(attributes.items()):
                full_name = f"{path}.{name}" if path else name
                replaced = _replaced(value, full_name, values, replacements if tie_weights else {})
                if replaced is not value:
                    changed.append((attributes, name, value))
                    attributes[name] = replaced
        positional = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*positional, **(kwargs or {}))
    finally:
        for attributes, name, value in changed:
            attributes[name] = value


def _merged(given: Union[Values, Sequence[Values]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for values in given if isinstance(given, (list, tuple)) else [given]:
        if not isinstance(values, Mapping):
            raise TypeError(
                f"functional_call: expected a dictionary of tensors by name, or a sequence of such, got "
                f"{type(values).__name__}{_at()}"
            )
        for name, value in values.items():
            if name in out:
                raise UserError(f"functional_call: two dictionaries have a value for {name!r}{_at()}")
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"functional_call: the value of {name!r} must be a tensor, got {type(value).__name__}{_at()}"
                )
            out[name] = value
    return out


def _replaced(value: Any, name: str, values: Values, replacements: Mapping[int, Any]) -> Any:
    """The value of an attribute, with other tensors in place of the parameters in it; the same object without any."""
    if isinstance(value, Parameter):
        return values.get(name, replacements.get(id(value), value))
    if isinstance(value, dict):
        items = {key: _replaced(item, f"{name}.{key}", values, replacements) for key, item in value.items()}
        return items if any(items[key] is not item for key, item in value.items()) else value
    if isinstance(value, (list, tuple)) and name.rpartition(".")[2] not in ATTRIBUTES:
        listed = [_replaced(item, f"{name}.{i}", values, replacements) for i, item in enumerate(value)]
        if all(new is old for new, old in zip(listed, value)):
            return value
        return type(value)(*listed) if hasattr(value, "_fields") else type(value)(listed)
    return value
