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
    """Writes a checkpoint: parameters, the state of optimisers, the random counter, the position of the data, and the
    notes, a dict of strings."""
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
    skips tensors. missing=True: parameters that the file lacks keep their values. extra=True: other tensors of
    the file are skipped.
    """
    sources = [parameters] if isinstance(parameters, (Module, Parameter)) else list(parameters)
    target_parameters = [
        item for part in sources for item in ([p for _, p in part._state()] if isinstance(part, Module) else [part])
    ]
    if sources and not target_parameters:
        raise UserError("load: the modules have neither parameters nor buffers")
    worlds.loaded = True
    for p in target_parameters:
        p._adaptable = False
    with_buffers = sources and all(isinstance(part, Module) for part in sources)
    # No local variable holds all parameters: the traceback of an error would keep them alive.
    return worlds.world().load(
        os.fspath(path),
        target_parameters,
        list(dict(names).items()),
        missing,
        extra,
        [] if with_buffers else _live_parameters(target_parameters),
    )


def _live_parameters(target_parameters: list[Parameter]) -> list[Parameter]:
    """The parameters and buffers that the file must contain; if only some parameters are loaded, only the buffers."""
    target_ids = set(map(id, target_parameters))
    return [
        p
        for p in recording.parameters.values()
        if p._named and (not target_ids or (isinstance(p, Buffer) and id(p) not in target_ids))
    ]
