"""Karez: deep learning on a mesh of devices, from a program written as if for one. `import karez as kz`."""

from . import errors
from .errors import (
    DataError, DeviceError, Error, HangError, LayoutError, NameError, PeerError, ShapeError, TypeError, UserError,
)
from ._core import __version__
from .dtypes import bool_, dtype, float32, float64, int32, int64
from .functions import *
from .pointwise import *
from .rearranging import *
from .products import *
from .reductions import *
from .random import *
from .scan import scan
from .sharing import from_dlpack
from .functions import abs, all, any, max, min, pow, sum  # also by these names of Python's, which * leaves alone
from .tensor import Tensor, tensor
from .layouts import B, P, S
from .worlds import Mesh, barrier, init, load, rank, ranks, reset, save, seed, world
from .gradients import grad, value_and_grad
from .compiled import Compiled, compile
from .objects import broadcast_object
from . import data, debug, nn, optim
from .nn import functional as F
