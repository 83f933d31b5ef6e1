"""The world: the devices, and all state that outlives calls. The default world is created by `init` or by the first
function that needs a world; `init` or the first mesh determines its number of devices."""

from __future__ import annotations

import atexit
import inspect
import math
import os
import signal
import sys
import threading
from collections.abc import Iterable
from typing import Any, Optional

from . import _core, recording
from .errors import DeviceError, UserError

_lock = threading.Lock()  # held while a world is created or grown
_default: Optional[_core.World] = None  # the default world
_seed = 1
_devices = 1  # devices of each rank
_data_cores = 0  # of the default world
_sized = False  # whether `init` or a mesh has determined the number of devices
_forked = False  # whether this process was forked from a process with a world
loaded = False  # whether a load may have left values for parameters that no function has used
_ended = False  # whether the program is ending and its world has ended


def init(
    devices: int = 1,
    seed: Any = None,
    *,
    workers: int = 0,
    team: int = 0,
    data_cores: int | str = 0,
    in_flight: int = 4,
    memory: int = 0,
    check_nan: bool = False,
    cost_file: str = "",
    device_limit: int = 4096,
    start_timeout: float = 600.0,
    peer_timeout: float = 30.0,
    check_inputs: str = "sampled",
) -> _core.World:
    """Creates the default world with this number of logical devices in this process. Call it at most once, before the
    first mesh.

    workers: the number of threads that serve the devices; 0 means one for each device, at most the number of cores.
    team: the number of threads that execute one kernel call; 0 means the number of cores per worker.
    data_cores: the number of cores that kernels leave to the stages of data sets. "auto": several numbers are tried for
        some seconds while the program reads a data set for its calls, and the best one is kept. Compiled functions are
        compiled again for each number, and the last bits of results depend on it.
    in_flight: the maximum number of calls that run at the same time.
    memory: the maximum number of bytes on each device that one plan may use, together with the elements of data sets
        that are being read (docs/data.md, Memory); 0 means no limit.
    check_nan: if true, a NaN or an infinity computed from finite operands makes the call fail.
    cost_file: the planner's cost table: a file that `karez doctor` has written, or "default" for a typical CPU. If
        empty, the variable KAREZ_COSTS is used in the same way; otherwise the table that
        `karez doctor --kernels --save` has saved for this processor, if any.
    device_limit: the maximum number of devices of the world and of a mesh.
    start_timeout: the seconds that the ranks wait for each other at the start.
    peer_timeout: the seconds without a message after which another rank counts as exited or hanging.
    check_inputs: how ranks check that their arguments are equal: "off", "sampled" or "full".
    """
    global _sized
    with _lock:
        options = [
            workers,
            team,
            _number_of_data_cores(data_cores),
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
                else " (created when the first value was computed, read, saved or loaded), so only devices= and seed= "
                "can be given"
            )
            raise UserError(f"karez.init: the default world exists already{why}; call init once, before the first mesh")
        else:
            _grow(devices)
            if seed is not None:
                _default.seed(seed)
        _sized = True
    assert _default is not None
    return _default


def _number_of_data_cores(data_cores: int | str) -> int:
    if data_cores == "auto":
        return int(_core.automatic)
    if not isinstance(data_cores, int) or data_cores < 0:
        raise UserError(f'karez.init: data_cores must be at least 0 or "auto", got {data_cores!r}')
    return data_cores


def _default_options() -> list[Any]:
    """The defaults of all options of `init` except devices and seed."""
    return [option.default for option in list(inspect.signature(init).parameters.values())[2:]]


def _make(devices: int, seed: Any, options: Any) -> None:
    """Makes the world; the caller holds the lock."""
    global _default, _devices, _seed, _data_cores
    if "KAREZ_DATA_WORKER" in os.environ:
        raise UserError(
            "a worker process of a data set has no devices: its functions can use NumPy arrays, but no tensors; pass "
            "processes=False to map or filter to call the function in the program's process"
        )
    if seed is not None:
        _seed = seed
    _default = _core.make_world(devices, _seed, *options)
    _data_cores = max(options[2], 0)
    _devices = devices if devices != 1 or _default.ranks == 1 else int(os.environ.get("KAREZ_DEVICES", 1))


def data_cores() -> int:
    """The number of cores for data sets: those of `init`, and otherwise all cores."""
    return _data_cores or len(os.sched_getaffinity(0))


def _grow(devices: int) -> None:
    """Grows the world while its number of devices is undetermined; the caller holds the lock."""
    global _devices
    assert _default is not None
    _default.grow_to(devices)
    _devices = max(_devices, devices)


def _world_of(devices: int) -> _core.World:
    """The default world, for a mesh of this number of devices. The first mesh determines the world's number of
    devices."""
    global _sized
    check_world()
    with _lock:
        if _default is None:
            _make(devices, None, _default_options())
        elif not _sized:
            _grow(devices)
        _sized = True
    assert _default is not None
    return _default


def world() -> _core.World:
    """The default world. If this call creates it, `init` or the first mesh can still determine its number of
    devices."""
    check_world()
    if _default is None:
        with _lock:
            if _default is None:
                _make(1, None, _default_options())
    assert _default is not None
    return _default


def has(parameter: Any) -> bool:
    """Whether a function has used the parameter. This call does not create a world."""
    return _default is not None and bool(_default.has(parameter))


def check_world() -> None:
    """Raises an error if no world can be used: while the program ends, and in a child of a process that had a
    world."""
    if _ended:
        _core.stop_if_ending()  # a thread other than the one that ends the program
        raise UserError("this world has ended: nothing can be called, read or written in it any more")
    check_fork()


def check_fork() -> None:
    """Raises an error in a child of a process that had a world."""
    if _forked:
        raise UserError(
            "this process was forked from a process with a world and lacks the threads of that world; fork before the "
            "first world is created, or use the start method 'spawn'"
        )


def _note_fork() -> None:
    global _forked
    _forked = _default is not None
    if _default is not None:
        _default.leak()


def _end_at_exit() -> None:
    """Ends the default world at exit. It waits for running calls, unless an error ends the program. It is registered
    first, so that it runs after all other exit functions."""
    global _ended
    if _default is None or _forked:
        return
    _default.end_iterators()  # first, because the functions of data sets may need the interpreter's lock
    _core.stop_other_threads()
    _ended = True
    interactive = hasattr(sys, "ps1") or bool(
        sys.flags.interactive
    )  # in interactive mode errors do not end the program
    try:
        _default.end(wait=interactive or not hasattr(sys, "last_value"))
    except KeyboardInterrupt:
        _default.end(wait=False)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)  # end as the interpreter does at Ctrl-C


os.register_at_fork(after_in_child=_note_fork)
atexit.register(_end_at_exit)


def first_device() -> _core.DeviceMesh:
    """The mesh on which values outside of compiled functions are computed."""
    return world().mesh([], 0, [])


def _end() -> None:
    """Ends the default world, for tests."""
    global _default, _seed, _sized, loaded
    _default, _seed, _sized, loaded = None, 1, False, False
    _core.forget_default_world()
    _core.restart_sites()


def seed(value: int) -> None:
    """Sets the seed of initial weights and dropout. Models created after calls with equal seeds start with equal
    weights."""
    global _seed
    if _default is None:
        _seed = value
        _core.restart_sites()
    else:
        world().seed(value)


def rank() -> int:
    """The rank of this process, from 0."""
    return world().rank


def ranks() -> int:
    """The number of processes that run this program."""
    return world().ranks


def devices_of_a_rank() -> int:
    """The number of logical devices of each process."""
    world()
    return _devices


def barrier() -> None:
    """Waits until all ranks have called this function."""
    world().barrier()


def reset() -> None:
    """Discards variables, their gradients and plans, and the state of a failed launch."""
    world().reset()
    for parameter in [reference() for reference in list(recording.gradient_holders.values())]:
        if parameter is not None:
            parameter.grad = None


def _has_launcher() -> bool:
    return any(name in os.environ for name in ("KAREZ_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_ID"))


class Mesh:
    """Devices along named axes: Mesh(data=2, model=2) or Mesh("data=2,model=2"). By default the mesh starts at
    device 0; first= sets another first device, and devices= lists the devices."""

    def __init__(self, text: str = "", *, first: int = 0, devices: Iterable[int] = (), **axes: int) -> None:
        if text and axes:
            raise UserError("Mesh: axes must be given as a string or as keywords, not both")
        sizes = list(axes.items()) if axes else _core.parse_mesh(text)
        self.size = 1
        for name, size in sizes:
            if not isinstance(size, int):
                raise UserError(f"Mesh: axis {name} must have an integer size, got {size!r}")
            self.size *= size
        devices = list(devices)
        min_devices = 1 if _has_launcher() else max([self.size + first, *(device + 1 for device in devices)])
        try:
            # without axes, the mesh is one device
            self._mesh = (_world_of(min_devices) if sizes or min_devices > 1 else world()).mesh(sizes, first, devices)
        except DeviceError as error:
            text = str(error).replace(") has enough", ") before the first mesh has enough")
            raise DeviceError(text) from None
        self.axes = dict(sizes)

    @classmethod
    def _of(cls, mesh: _core.DeviceMesh) -> Mesh:
        """The Python object for a C++ mesh."""
        mesh_object = cls.__new__(cls)
        mesh_object._mesh, mesh_object.axes, mesh_object.size = (
            mesh,
            dict(mesh.axes),
            math.prod(size for _, size in mesh.axes),
        )
        return mesh_object

    def __eq__(self, other: object) -> bool:
        return self._mesh.same(other._mesh) if isinstance(other, Mesh) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.axes.items()))

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{name}={size}' for name, size in self.axes.items())})"
