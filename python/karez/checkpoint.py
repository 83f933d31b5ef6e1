"""Checkpoints: kz.save and kz.load."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import recording, worlds
from .errors import UserError
from .nn.module import Module
from .nn.parameter import Buffer, Parameter


def save(path: Union[str, os.PathLike[str]], position: int = 0, notes: Optional[Mapping[str, str]] = None) -> None:
    """Writes a checkpoint: parameters, the state of optimisers, the random counter, the position of the data, and notes
    (strings by name)."""
    worlds.world().save(os.fspath(path), position, notes or {})


def load(
    path: Union[str, os.PathLike[str]],
    parameters: Any = (),
    names: Any = (),
    missing: bool = False,
    extra: bool = False,
) -> tuple[int, dict[str, str]]:
    """Loads values from a safetensors file: for all parameters, or only for a module (or a list of modules and
    parameters). Returns the position of the data, and the notes.

    `names` maps names of the file to names of the model, {"h.*.ln_1.weight": "blocks.*.norm1.weight"}; an empty name
    skips tensors. missing: parameters that the file lacks keep their values; extra: other tensors of the file are
    skipped.
    """
    given = [parameters] if isinstance(parameters, (Module, Parameter)) else list(parameters)
    wanted = [one for part in given for one in ([p for _, p in part._state()] if isinstance(part, Module) else [part])]
    if given and not wanted:
        raise UserError("load: the modules have neither parameters nor buffers")
    worlds.loaded = True
    for p in wanted:
        p._adaptable = False
    with_buffers = given and all(isinstance(part, Module) for part in given)
    # No local variable holds all parameters: the traceback of an error would keep them alive.
    return worlds.world().load(
        os.fspath(path),
        wanted,
        list(dict(names).items()),
        missing,
        extra,
        [] if with_buffers else _live_parameters(wanted),
    )


def _live_parameters(wanted: list[Parameter]) -> list[Parameter]:
    """The parameters and buffers that a load of the whole file must match; for a load of some parameters, the
    buffers."""
    own = set(map(id, wanted))
    return [
        p
        for p in recording.parameters.values()
        if p._named and (not own or (isinstance(p, Buffer) and id(p) not in own))
    ]
