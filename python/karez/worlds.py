"""The world: devices and all state that outlives calls. One is the default, made by `init` or by whatever needs it first; how many devices it has says
`init` or the first mesh."""

from __future__ import annotations

from typing import Any

import atexit
import inspect
import math
import os
import signal
import sys
import threading

from . import _core, gradients
from .errors import DeviceError, UserError

_lock = threading.Lock()  # of a world that is made or grows
_default = None  # the world, and how it came to be
_seed = 1
_devices = 1  # of each rank
_sized = False  # whether `init` or a mesh has said how many
_forked = False  # from a process that had a world
loaded = False  # values may wait for parameters that no function has used
_ended = False  # the program is about to end, and its world has


def init(
    devices: int = 1,
    seed: Any = None,
    *,
    workers: int = 0,
    team: int = 0,
    in_flight: int = 4,
    memory: int = 0,
    check_nan: bool = False,
    cost_file: str = "",
    device_limit: int = 4096,
    start_timeout: float = 600.0,
    peer_timeout: float = 30.0,
    check_inputs: str = "sampled",
) -> Any:
    """Makes the default world: so many logical devices of this process, served by threads of its own. Once; before the first mesh."""
    global _sized
    with _lock:
        options = [
            workers,
            team,
            in_flight,
            memory,
            check_nan,
            cost_file,
            device_limit,
            start_timeout,
            peer_timeout,
            check_inputs,
        ]
        if _default is None:
            _make(devices, seed, options)
        elif _sized or options != _default_options():
            why = (
                ""
                if _sized
                else ", which the first value that was computed, read, saved or loaded has made; it takes no more than devices= and seed= now"
            )
            raise UserError(f"karez.init: there is a default world already{why}; call it once, before the first mesh")
        else:
            _grow(devices)
            if seed is not None:
                _default.seed(seed)
        _sized = True
    return _default


def _default_options() -> Any:
    """The options of `init` but for devices and seed, as they are where it is not called."""
    return [option.default for option in list(inspect.signature(init).parameters.values())[2:]]


def _make(devices: int, seed: Any, options: Any) -> None:
    """With the lock."""
    global _default, _devices, _seed
    if seed is not None:
        _seed = seed
    _default = _core.make_world(devices, _seed, *options)
    _devices = devices if devices != 1 or _default.ranks == 1 else int(os.environ.get("KAREZ_DEVICES", 1))


def _grow(devices: int) -> None:
    """With the lock, as long as nobody has said how many devices there are."""
    global _devices
    _default.grow_to(devices)
    _devices = max(_devices, devices)


def _world_of(devices: int) -> Any:
    """The default world for a mesh of so many devices: the first one says how many it has."""
    global _sized
    check_world()
    with _lock:
        if _default is None:
            _make(devices, None, _default_options())
        elif not _sized:
            _grow(devices)
        _sized = True
    return _default


def world() -> Any:
    """The default world. Where there was none, the first mesh or `init` is still to say how many devices it has."""
    check_world()
    if _default is None:
        with _lock:
            if _default is None:
                _make(1, None, _default_options())
    return _default


def has(parameter: Any) -> bool:
    """Whether a function has used the parameter. Makes no world."""
    return _default is not None and bool(_default.has(parameter))


def check_world() -> None:
    """An error where there is no world to use: once the program has begun to end, and in a child of a process that had one."""
    if _ended:
        _core.stop_if_ending()  # a thread other than the one that ends the program
        raise UserError("this world has ended: nothing can be called, read or written in it any more")
    check_fork()


def check_fork() -> None:
    """An error in a child of a process that had a world."""
    if _forked:
        raise UserError(
            "this process is a fork of one that had a world, whose threads it has not: fork before the first world, or use the start method 'spawn'"
        )


def _note_fork() -> None:
    global _forked
    _forked = _default is not None
    if _default is not None:
        _default.leak()


def _end_at_exit() -> None:
    """The last of the functions at exit, as it is registered first: waits for calls under way, unless an error ends the program."""
    global _ended
    if _default is None or _forked:
        return
    _core.stop_other_threads()
    _ended = True
    interactive = hasattr(sys, "ps1") or sys.flags.interactive  # where errors do not end the program
    try:
        _default.end(wait=interactive or not hasattr(sys, "last_value"))
    except KeyboardInterrupt:
        _default.end(wait=False)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)  # as the interpreter itself ends at Ctrl-C


os.register_at_fork(after_in_child=_note_fork)
atexit.register(_end_at_exit)


def first_device() -> Any:
    """Where it is computed what no compiled function computes."""
    return world().mesh([], 0, [])


def _end() -> Any:
    """Ends the default world, for tests."""
    global _default, _seed, _sized, loaded
    _default, _seed, _sized, loaded = None, 1, False, False
    _core.forget_default_world()
    _core.restart_sites()


def seed(value: Any) -> None:
    """Initial weights and dropout follow this seed from here on. Models that are made after it begin as those after an equal one did."""
    global _seed
    if _default is None:
        _seed = value
        _core.restart_sites()
    else:
        world().seed(value)


def rank() -> int:
    """The number of this process, from 0."""
    return world().rank


def ranks() -> int:
    """How many processes run this program."""
    return world().ranks


def devices_of_a_rank() -> Any:
    """How many logical devices each process has."""
    world()
    return _devices


def barrier() -> None:
    """Waits until all ranks are here."""
    world().barrier()


def reset() -> None:
    """Forgets variables and plans, and with them a failed launch."""
    world().reset()


def save(path: Any, position: int = 0, notes: Any = None) -> None:
    """Writes a checkpoint of everything: parameters, optimisers' state, the random counter, the position of the data and texts by name."""
    world().save(os.fspath(path), position, notes or {})


def load(path: Any, parameters: Any = (), names: Any = (), missing: bool = False, extra: bool = False) -> Any:
    """Takes values from a safetensors file: all there are, or those of a module (or of modules and parameters in a list) alone. Returns the position of
    the data, and the notes.

    `names` maps a file's names to ours, {"h.*.ln_1.weight": "blocks.*.norm1.weight"}; an empty one leaves tensors out. missing: what the file lacks
    stays as it is; extra: what it has besides the module is left out.
    """
    from .nn.module import Module
    from .nn.parameter import Parameter

    global loaded
    given = [parameters] if isinstance(parameters, (Module, Parameter)) else list(parameters)
    wanted = [one for part in given for one in ([p for _, p in part._state()] if isinstance(part, Module) else [part])]
    if given and not wanted:
        raise UserError("load: the modules have neither parameters nor buffers")
    loaded = True
    for p in wanted:
        p._adaptable = False
    with_buffers = given and all(isinstance(part, Module) for part in given)
    # What lives is no local of this function: the traceback of an error would keep it alive.
    return world().load(
        os.fspath(path),
        wanted,
        list(dict(names).items()),
        missing,
        extra,
        [] if with_buffers else _live_parameters(wanted),
    )


def _live_parameters(wanted: Any) -> Any:
    """The parameters and buffers that a load of everything should fit, or beside some parameters the buffers."""
    from .nn.parameter import Buffer

    own = set(map(id, wanted))
    return [
        p
        for p in gradients.parameters.values()
        if p._named and (not own or (isinstance(p, Buffer) and id(p) not in own))
    ]


def _has_launcher() -> Any:
    return any(name in os.environ for name in ("KAREZ_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_ID"))


class Mesh:
    """Devices along named axes: Mesh(data=2, model=2) or Mesh("data=2,model=2"); others than the first by first= or devices=."""

    def __init__(self, text: str = "", *, first: int = 0, devices: Any = (), **axes: Any) -> None:
        if text and axes:
            raise UserError("Mesh: axes are given as a text or as keywords, not both")
        axes = list(axes.items()) if axes else _core.parse_mesh(text)
        self.size = 1
        for name, size in axes:
            if not isinstance(size, int):
                raise UserError(f"Mesh: axis {name} has size {size!r}; a whole number is meant")
            self.size *= size
        wanted = 1 if _has_launcher() else max([self.size + first, *(device + 1 for device in devices)])
        try:
            self._mesh = (_world_of(wanted) if axes or wanted > 1 else world()).mesh(
                axes, first, list(devices)
            )  # none of the user's is one device
        except DeviceError as error:
            text = str(error).replace(") has enough", ") before the first mesh has enough")
            raise DeviceError(text) from None
        self.axes = dict(axes)

    @classmethod
    def _of(cls, mesh: Any) -> Mesh:
        """The same in C++'s words."""
        made = cls.__new__(cls)
        made._mesh, made.axes, made.size = mesh, dict(mesh.axes), math.prod(size for _, size in mesh.axes)
        return made

    def __eq__(self, other: Any) -> Any:
        return self._mesh.same(other._mesh) if isinstance(other, Mesh) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.axes.items()))

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{name}={size}' for name, size in self.axes.items())})"
