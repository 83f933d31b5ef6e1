"""Checkpoints: kz.save and kz.load."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import recording, worlds
from .data.iterator import DataIterator
from .errors import NameError, UserError
from .nn.module import Module
from .nn.parameter import Buffer, Parameter

_DATA = "data iterator "  # the beginning of the names of notes that hold positions


def save(
    path: Union[str, os.PathLike[str]],
    position: int = 0,
    notes: Optional[Mapping[str, str]] = None,
    data: Optional[Mapping[str, DataIterator]] = None,
) -> None:
    """Writes a checkpoint. It contains the parameters, the optimiser state, the random counter, the data position,
    `notes`, a dict of strings, and the positions of the iterators in `data`, by name."""
    all_notes = dict(notes or {})
    for name, iterator in (data or {}).items():
        all_notes[_DATA + name] = iterator._iterator.common_state()
    worlds.world().save(os.fspath(path), position, all_notes)


def load(
    path: Union[str, os.PathLike[str]],
    parameters: Any = (),
    names: Any = (),
    missing: bool = False,
    extra: bool = False,
    data: Optional[Mapping[str, DataIterator]] = None,
) -> tuple[int, dict[str, str]]:
    """Loads values from a safetensors file: for all parameters by default, or only for `parameters`, which may be a
    module, a parameter, or a list of both. Returns the data position and the notes.

    `names` maps names in the file to names in the model, as in {"h.*.ln_1.weight": "blocks.*.norm1.weight"}; tensors
    that are mapped to an empty name are skipped. With missing=True, parameters that the file lacks keep their values.
    With extra=True, tensors that the model lacks are skipped. Each iterator in `data` continues at the position that
    was saved under its name.
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
    # No local variable holds the list of all parameters, because the traceback of an error would keep them alive.
    saved_position, all_notes = worlds.world().load(
        os.fspath(path),
        target_parameters,
        list(dict(names).items()),
        missing,
        extra,
        [] if with_buffers else _live_parameters(target_parameters),
    )
    positions = {key[len(_DATA) :]: text for key, text in all_notes.items() if key.startswith(_DATA)}
    for name, iterator in (data or {}).items():
        if name not in positions:
            raise NameError(
                f"load: the checkpoint has no position for the iterator '{name}'; it has positions for "
                + (", ".join(f"'{other}'" for other in positions) or "no iterator")
            )
        iterator.load_state(positions[name])
    return saved_position, {key: text for key, text in all_notes.items() if not key.startswith(_DATA)}


def _live_parameters(target_parameters: list[Parameter]) -> list[Parameter]:
    """The named parameters and buffers of the program. If only `target_parameters` are loaded, only the buffers that
    are not among them."""
    target_ids = set(map(id, target_parameters))
    return [
        p
        for p in recording.parameters.values()
        if p._named and (not target_ids or (isinstance(p, Buffer) and id(p) not in target_ids))
    ]
