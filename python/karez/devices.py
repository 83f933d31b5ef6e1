"""Devices in PyTorch's notation: kz.device, device= of functions that create tensors, and tensor.to(...)."""

from __future__ import annotations

from typing import Any, NoReturn, Optional

from ._core import cast
from .dtypes import dtype as DType, dtype_of, is_dtype
from .errors import TypeError, UserError
from .type_aliases import Tensor
from .user_line import _at

MESH_ADVICE = "kz.compile(mesh=kz.Mesh(data=2)) runs a function on several logical devices of the CPU"


class device:
    """A device in PyTorch's notation: kz.device("cpu"), the only one. It has no effect on the devices of a compiled
    function, which its mesh determines.

    A device can be used in a `with` statement, where it has no effect.
    """

    _index: Optional[int]
    _devices: dict[Optional[int], device] = {}  # one object for each index, so that equal devices are identical

    def __new__(cls, type: Any, index: Optional[int] = None) -> device:
        if index is not None and not isinstance(type, str):
            raise TypeError(f"device: index= needs the type of a device as a string, got {type!r}{_at()}")
        return require_device("device", type if index is None else f"{type}:{index}")

    @property
    def type(self) -> str:
        """The type of the device, "cpu"."""
        return "cpu"

    @property
    def index(self) -> Optional[int]:
        """The number of the device: 0 for kz.device("cpu:0"), and None for kz.device("cpu")."""
        return self._index

    def __repr__(self) -> str:
        return f"device(type={self.type!r}{'' if self.index is None else f', index={self.index}'})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> Any:
        return device, (str(self),)

    def __enter__(self) -> device:
        return self

    def __exit__(self, *_: object) -> None:
        pass


_DEVICE_TYPES = frozenset(
    "cpu cuda hip hpu ipu maia meta mkldnn mps mtia opencl opengl vulkan xla xpu".split()
)  # PyTorch's, to tell a device from a misspelt dtype
for _index in (None, 0):
    _device = object.__new__(device)
    _device._index = _index
    device._devices[_index] = _device


def require_device(function: str, value: Any) -> device:
    """The device that an argument of a function denotes. Raises an error if there is no such device."""
    if isinstance(value, device):
        return value
    if value in ("cpu", "cpu:0") if isinstance(value, str) else _is_cpu_of_torch(value):
        return device._devices[None if value != "cpu:0" else 0]
    if isinstance(value, bool) or not (isinstance(value, (str, int)) or _is_torch_device(value)):
        raise TypeError(f"{function}: a device must be 'cpu' or kz.device('cpu'), got {value!r}{_at()}")
    name = value if isinstance(value, (str, int)) else str(value)
    raise UserError(
        f"{function}: device {name!r} does not exist; the only device is 'cpu'. Write 'cpu' or omit the device; "
        f"{MESH_ADVICE}{_at()}"
    )


def check_device(function: str, value: Any) -> None:
    """Raises an error unless the argument device= of a function is None or an existing device."""
    if value is not None:
        require_device(function, value)


def no_cuda(call: str) -> UserError:
    """The error of a call that needs a GPU, such as "x.cuda()"."""
    return UserError(
        f"{call} needs a CUDA device, and the only device is 'cpu'. Remove the call, or make it depend on "
        f"kz.cuda.is_available(); {MESH_ADVICE}{_at()}"
    )


def _is_torch_device(value: Any) -> bool:
    return type(value).__module__ == "torch" and type(value).__name__ == "device"


def _is_cpu_of_torch(value: Any) -> bool:
    return _is_torch_device(value) and value.type == "cpu"


def set_default_device(device: Any) -> None:
    """Checks that the device exists, as None and "cpu" do. It has no other effect, since there is one device."""
    check_device("set_default_device", device)


def get_default_device() -> device:
    """The device of new tensors, kz.device("cpu")."""
    return device("cpu")


def target_of_to(args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Optional[DType], bool]:
    """The dtype (None to keep the current one) and copy= of to(device, dtype), to(dtype), to(tensor) and the same
    arguments as keywords."""
    names = ["device", "dtype", "non_blocking", "copy"]
    if args and isinstance(args[0], Tensor):
        names = ["other", "non_blocking", "copy"]
    elif args and is_dtype(args[0]):
        names = ["dtype", "non_blocking", "copy"]
    elif args and not isinstance(args[0], (str, int, device, type(None))) and not _is_torch_device(args[0]):
        raise TypeError(f"to: the first argument must be a dtype, a device or a tensor, got {args[0]!r}{_at()}")
    elif args and isinstance(args[0], str) and args[0].partition(":")[0] not in _DEVICE_TYPES:
        raise TypeError(
            f"to: the first argument must be a dtype, a device or a tensor, got {args[0]!r}, which is neither the name "
            f"of a dtype nor of a device{_at()}"
        )
    if len(args) > len(names):
        raise TypeError(f"to: expected at most {len(names)} arguments, got {len(args)}{_at()}")
    given = dict(zip(names, args))
    for name, value in keywords.items():
        if name in given:
            raise TypeError(f"to: argument {name} is given twice{_at()}")
        if name not in ("other", "device", "dtype", "non_blocking", "copy"):
            raise TypeError(
                f"to: unknown argument {name}=; the arguments are device, dtype, non_blocking and copy{_at()}"
            )
        given[name] = value
    other, dtype = given.get("other"), given.get("dtype")
    if other is not None and not isinstance(other, Tensor):
        raise TypeError(f"to: other must be a tensor, got {other!r}{_at()}")
    check_device("to", given.get("device"))
    return dtype_of("to", dtype) if dtype is not None else None if other is None else other.dtype, bool(
        given.get("copy")
    )


def to(self: Tensor, *args: Any, **keywords: Any) -> Tensor:
    """The elements converted to a dtype: to(dtype), to(device, dtype) or to(tensor), whose dtype is taken. The device,
    which is always the CPU, and non_blocking= have no effect. Without a change and without copy=True the result is the
    tensor itself."""
    dtype, copy = target_of_to(args, keywords)
    if not copy and (dtype is None or (dtype is self.dtype and not self._number)):
        return self
    return cast(self, dtype or self.dtype)


def type_(self: Tensor, dtype: Any = None) -> Tensor:
    """The elements converted to another dtype."""
    if dtype is None:
        raise TypeError(f"type: a dtype is missing; x.dtype is the dtype of a tensor{_at()}")
    return to(self, dtype=dtype_of("type", dtype))


def cpu(self: Tensor) -> Tensor:
    """The tensor itself, since all tensors are on the CPU."""
    return self


def cuda(self: Tensor, *_: Any, **__: Any) -> NoReturn:
    """Raises an error, since there is no CUDA device."""
    raise no_cuda("cuda()")


def device_of(self: Tensor) -> device:
    """The device in PyTorch's notation, kz.device("cpu"). `mesh` and `layout` describe the placement on a mesh."""
    return device("cpu")
