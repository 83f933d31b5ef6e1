"""Karez: deep learning on a mesh of devices, with programs written as if for one device. `import karez as kz`."""

from . import errors as errors
from .errors import (
    DataError as DataError,
    DeviceError as DeviceError,
    Error as Error,
    HangError as HangError,
    LayoutError as LayoutError,
    NameError as NameError,
    PeerError as PeerError,
    ShapeError as ShapeError,
    TypeError as TypeError,
    UserError as UserError,
)
from ._core import __version__ as __version__
from .dtypes import (
    bfloat16 as bfloat16,
    bool_ as bool_,
    dtype as dtype,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    int32 as int32,
    int64 as int64,
    uint8 as uint8,
)
from .devices import (
    device as device,
    get_default_device as get_default_device,
    set_default_device as set_default_device,
)
from .functions import *
from .creation import *
from .sorting import *
from .pointwise import *
from .rounding import *
from .manipulation import *
from .products import *
from .reductions import *
from .searching import *
from .selection import *
from .storage_functions import *
from .unique_values import *
from .random import *
from .scan import scan as scan
from .writes import update as update
from .dlpack import from_dlpack as from_dlpack
from .drawing import show as show
from .functions import (
    abs as abs,
    all as all,
    any as any,
    pow as pow,
    sum as sum,
)  # names of Python's builtins, which * does not import
from .sorting import max as max, min as min
from .tensor import Tensor as Tensor, as_tensor as as_tensor, tensor as tensor
from .parts import Part as Part, from_parts as from_parts
from .profile import profile as profile
from .layouts import B as B, P as P, S as S
from .worlds import (
    Mesh as Mesh,
    barrier as barrier,
    init as init,
    rank as rank,
    ranks as ranks,
    reset as reset,
    seed as seed,
    world as world,
)
from .checkpoint import load as load, save as save
from .grad_mode import *
from .gradients import grad as grad, value_and_grad as value_and_grad
from .vmap import vmap as vmap
from .function_gradients import jvp as jvp
from ._core import local as local
from .compiled_function import Compiled as Compiled, compile as compile
from .object_collectives import broadcast_object as broadcast_object
from . import (
    accelerator as accelerator,
    autograd as autograd,
    backends as backends,
    cuda as cuda,
    data as data,
    debug as debug,
    func as func,
    nn as nn,
    optim as optim,
)
from .nn import functional
from .nn.functional_call import functional_call as functional_call

F = functional
