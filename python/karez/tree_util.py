"""Flattens nested tuples, lists and dicts into a list of leaves and a hashable structure, and rebuilds them."""

from __future__ import annotations

from typing import Any

from .errors import UserError


class LeafMarker:
    """The position of a leaf in a structure."""

    def __repr__(self) -> str:
        return "*"


LEAF = LeafMarker()


class StaticLeaf:
    """A value that is part of the structure."""

    def __init__(self, value: Any) -> None:
        try:
            hash(value)
        except TypeError:
            raise UserError(
                "an argument of a compiled function must be an array, a number, a tensor, a hashable value, or "
                f"tuples, lists and dicts of these, got {type(value).__name__}"
            ) from None
        self.value = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StaticLeaf) and type(self.value) is type(other.value) and bool(self.value == other.value)
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


def tree_flatten(value: Any, is_leaf: Any, leaves: Any) -> Any:
    """Appends the leaves of a value to `leaves`, and returns its structure."""
    if is_leaf(value):
        leaves.append(value)
        return LEAF
    if isinstance(value, (tuple, list)):
        return (type(value), *(tree_flatten(item, is_leaf, leaves) for item in value))
    if isinstance(value, dict):
        return (dict, tuple(value), *(tree_flatten(item, is_leaf, leaves) for item in value.values()))
    return StaticLeaf(value)


def num_leaves(structure: Any) -> int:
    """The number of leaves of a structure."""
    if structure is LEAF:
        return 1
    if isinstance(structure, StaticLeaf):
        return 0
    return sum(num_leaves(item) for item in structure[2 if structure[0] is dict else 1 :])


def tree_unflatten(structure: Any, leaves: Any) -> Any:
    """Rebuilds a value from its structure and an iterator of leaves."""
    if structure is LEAF:
        return next(leaves)
    if isinstance(structure, StaticLeaf):
        return structure.value
    if structure[0] is dict:
        return {key: tree_unflatten(item, leaves) for key, item in zip(structure[1], structure[2:])}
    values = [next(leaves) if item is LEAF else tree_unflatten(item, leaves) for item in structure[1:]]
    return structure[0](*values) if hasattr(structure[0], "_fields") else structure[0](values)


def has_attribute(value: Any, name: str) -> bool:
    """hasattr for an object of the user, whose __getattr__ may raise any exception."""
    try:
        return hasattr(value, name)
    except Exception:
        return False


def static_objects(structure: Any) -> Any:
    """The values in a structure that are not plain constants."""
    if isinstance(structure, StaticLeaf):
        return (
            []
            if isinstance(structure.value, (bool, int, float, complex, str, bytes, type(None)))
            else [structure.value]
        )
    if structure is LEAF:
        return []
    return [
        static_object
        for part in (structure[2:] if structure[0] is dict else structure[1:])
        for static_object in static_objects(part)
    ]


def static_leaves(structure: Any) -> list[Any]:
    """The values in a structure that are no leaves."""
    if isinstance(structure, StaticLeaf):
        return [structure.value]
    parts = () if structure is LEAF else structure[2:] if structure[0] is dict else structure[1:]
    return [value for part in parts for value in static_leaves(part)]
