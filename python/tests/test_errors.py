"""Tests of error messages: the fault, the expected and the actual value, the line of the program, and the fix."""

import numpy as np
import pytest

import karez as kz
from karez import F, P, nn

X = np.ones((4, 6), np.float32)
LATER = []


def ones(*shape):
    return np.ones(shape, np.float32)


def leak_tensor():
    with pytest.raises(kz.UserError, match="stored a tensor of its program"):
        kz.compile(lambda x: LATER.append(x) or x)(X)
    return LATER.pop()


def add_one(x):
    return kz.compile(lambda a: a + 1)(x)


GOLDEN = {
    "inner sizes": (lambda: kz.compile(lambda x: x @ x)(X), kz.ShapeError, "matmul: inner sizes differ: 6 and 4"),
    "inner sizes of a layer": (
        lambda: kz.compile(nn.Sequential(nn.Linear(5, 2)))(X),
        kz.ShapeError,
        "linear: inner sizes differ: 6 and 5 (x f32[4, 6], weight f32[2, 5])",
    ),
    "broadcast": (lambda: kz.compile(lambda x: x + np.ones(5))(X), kz.ShapeError, "shapes do not broadcast"),
    "reshape": (
        lambda: kz.compile(lambda x: x.reshape(5, -1))(X),
        kz.ShapeError,
        "reshape: the 24 elements of f32[4, 6] do not fit shape [5, -1]",
    ),
    "an axis": (
        lambda: kz.compile(lambda x: x.sum(3))(X),
        kz.ShapeError,
        "axis 3 of a tensor with 2 dimensions does not exist",
    ),
    "a dimension": (
        lambda: kz.compile(lambda x: x.transpose(0, 2))(X),
        kz.ShapeError,
        "dimension 2 of f32[4, 6] does not exist",
    ),
    "an index": (
        lambda: kz.compile(lambda x: x[4])(X),
        kz.ShapeError,
        "index 4 is out of range for dimension 0 of f32[4, 6]",
    ),
    "too many indices": (
        lambda: kz.compile(lambda x: x[0, 0, 0])(X),
        kz.ShapeError,
        "an index of f32[4, 6] must have at most 2 entries and one ..., got 3 entries and 0 ...",
    ),
    "a mask": (
        lambda: kz.compile(lambda x: x[x > 0])(X),
        kz.TypeError,
        "an index in a compiled function must not be a mask, since the shape of the result would depend on values",
    ),
    "an index of a wrong type": (
        lambda: kz.compile(lambda x: x["a"])(X),
        kz.TypeError,
        "and arrays of integers, got 'a'",
    ),
    "if": (
        lambda: kz.compile(lambda x: x if x.sum() > 0 else -x)(X),
        kz.TypeError,
        "a tensor in a compiled function must not be the condition of a Python `if`, `while`, `and`, `or` or `not`, "
        "since the function is traced before its values are known. kz.where(condition, a, b)",
    ),
    "float": (
        lambda: kz.compile(lambda x: float(x.sum()))(X),
        kz.UserError,
        "float() of f32[] is not available: the tensor belongs to a function that is being compiled",
    ),
    "numpy": (
        lambda: kz.compile(lambda x: x.numpy())(X),
        kz.UserError,
        "numpy() of f32[4, 6] is not available: the tensor belongs to a function that is being compiled",
    ),
    "item of a matrix": (
        lambda: add_one(X).item(),
        kz.ShapeError,
        "item() and float() need a tensor with one element, got f32[4, 6]",
    ),
    "a mean of integers": (
        lambda: kz.compile(lambda x: x.mean())(np.arange(3)),
        kz.TypeError,
        "mean: expected a floating-point tensor, got i64[3]; cast it to a float first",
    ),
    "int16": (
        lambda: add_one(X.astype(np.int16)),
        kz.TypeError,
        "unsupported array dtype int16; the supported dtypes are float32, float64, float16, int32, int64, uint8 and "
        "bool, and bfloat16 from ml_dtypes or DLPack. x.astype(numpy.int32) converts an array",
    ),
    "uint16": (lambda: add_one(X.astype(np.uint16)), kz.TypeError, "unsupported array dtype uint16"),
    "text": (lambda: add_one(np.array(["a"])), kz.TypeError, "unsupported array dtype <U1"),
    "objects": (lambda: add_one(np.array([None])), kz.TypeError, "unsupported array dtype object"),
    "an integer of 64 bits": (lambda: add_one(2**63), kz.TypeError, "unsupported array dtype uint64"),
    "a number of 65 bits": (
        lambda: kz.compile(lambda x: x * 2**64)(X),
        kz.TypeError,
        "the number 18446744073709551616 does not fit into 64 bits",
    ),
    "an unknown dtype": (
        lambda: kz.compile(lambda x: x.to("float65"))(X),
        kz.TypeError,
        "to: the first argument must be a dtype, a device or a tensor, got 'float65', which is neither the name of a "
        "dtype nor of a device",
    ),
    "a tensor of another trace": (
        lambda: kz.compile(lambda x, y=None: x + leak)(X),
        kz.UserError,
        "belongs to another trace",
    ),
    "a tensor after its trace": (
        lambda: leak + 1,
        kz.UserError,
        "of a program that was traced is used outside of the program, where it has no bytes",
    ),
    "an array from outside": (
        lambda: kz.compile(lambda x: x + array)(X),
        kz.UserError,
        "a tensor f32[4, 6] from outside is not part of the program that is being traced: make it an argument",
    ),
    "backward outside": (
        lambda: add_one(X).backward(),
        kz.UserError,
        "backward: f32[4, 6] depends on no parameter and on no tensor with requires_grad=True",
    ),
    "backward of a matrix": (
        lambda: kz.compile(lambda x: x.backward())(X),
        kz.TypeError,
        "the loss of a gradient must be a float scalar, f32[] or f64[], got f32[4, 6]",
    ),
    "step outside": (
        lambda: kz.optim.SGD([w], lr=1).step(),
        kz.UserError,
        "step(): no parameter of this optimiser has a gradient; call loss.backward() first",
    ),
    "a gradient of another kind": (
        lambda: kz.optim.SGD([w], lr=1).step(["x"]),
        kz.TypeError,
        "step: gradient 0 must be a tensor or a NumPy array, got str",
    ),
    "step before backward": (
        lambda: kz.compile(lambda: kz.optim.SGD([w], lr=1).step())(),
        kz.UserError,
        "step(): no parameter of this optimiser has a gradient",
    ),
    "a format of a value of a program": (
        lambda: kz.compile(lambda x: f"{x.sum():.3f}")(X),
        kz.UserError,
        "f32[] cannot be formatted: the tensor belongs to a function that is being compiled, and has no value before "
        "the function runs. kz.debug.print prints it at run time",
    ),
    "no result": (
        lambda: kz.compile(lambda x: None, name="f")(X),
        kz.UserError,
        "returns no tensor and updates nothing: there is nothing to run",
    ),
    "a text": (lambda: kz.compile(lambda x: "loss")(X), kz.UserError, "returns no tensor and updates nothing"),
    "an empty tuple": (lambda: kz.compile(lambda: ())(), kz.UserError, "returns no tensor and updates nothing"),
    "the maximum of no elements": (
        lambda: kz.max(ones(0)),
        ValueError,
        "max of f32[0]: dimension 0 has no elements to choose from",
    ),
    "the maximum along an empty dimension": (
        lambda: kz.max(ones(3, 0), 1),
        kz.ShapeError,
        "arg_max of f32[3, 0]: dimension 1 has no elements to choose from",
    ),
    "the minimum over an empty dimension": (
        lambda: kz.compile(lambda x: x.amin((0, 1)))(ones(0, 3)),
        kz.ShapeError,
        "min of f32[0, 3]: dimension 0 has no elements to choose from",
    ),
    "labels of floats": (
        lambda: F.cross_entropy(ones(4, 3), ones(4)),
        kz.TypeError,
        "cross_entropy: labels must be i32 or i64 [4] for logits f32[4, 3], got f32[4]; float targets are class "
        "probabilities and must have the shape of the logits",
    ),
    "labels that would broadcast": (
        lambda: F.cross_entropy(ones(4, 3), ones(4, 1)),
        kz.TypeError,
        "cross_entropy: labels must be i32 or i64 [4] for logits f32[4, 3], got f32[4, 1]",
    ),
    "a label of a float": (
        lambda: F.cross_entropy(ones(3), 2.0),
        kz.TypeError,
        "cross_entropy: labels must be i32 or i64 [] for logits f32[3], got f32[]",
    ),
    "too few labels that are summed": (
        lambda: F.cross_entropy(ones(4, 3), np.array([0, 1]), reduction="sum"),
        kz.TypeError,
        "cross_entropy: labels must be i32 or i64 [4] for logits f32[4, 3], got i64[2]",
    ),
    "labels of pixels": (
        lambda: F.cross_entropy(ones(2, 3, 5), np.zeros((2, 3), np.int64)),
        kz.TypeError,
        "cross_entropy: labels must be i32 or i64 [2, 5] for logits f32[2, 3, 5], got i64[2, 3]",
    ),
    "floats to nll_loss": (
        lambda: F.nll_loss(ones(4, 3), ones(4)),
        kz.TypeError,
        "nll_loss: labels must be i32 or i64 [4] for logits f32[4, 3], got f32[4]",
    ),
    "an optimiser without parameters": (lambda: kz.optim.Adam([]), kz.UserError, "optimiser 'adam' has no parameters"),
    "a negative learning rate": (
        lambda: kz.optim.Adam([w], lr=-1.0),
        kz.UserError,
        "optimiser 'adam': lr is -1.0; it must be finite and at least 0",
    ),
    "no forward": (lambda: kz.compile(nn.Module())(X), kz.UserError, "Module has no forward(...)"),
    "a mesh too large": (
        lambda: (kz.Mesh(data=2), kz.Mesh(data=4)),
        kz.DeviceError,
        "mesh(data=4) takes 4 devices, but the world has 2; karez.init(devices=4) before the first mesh",
    ),
    "more devices than the limit": (
        lambda: kz.init(devices=9999),
        kz.UserError,
        "World: 9999 devices exceed the limit of 4096; karez.init(devices=9999, device_limit=9999) raises the limit, "
        "but plans for so many devices take minutes to make",
    ),
    "a mesh beyond the limit": (
        lambda: (kz.init(device_limit=4), kz.Mesh(data=8)),
        kz.DeviceError,
        "mesh(data=8) takes 8 devices, but the limit is 4; a higher device_limit= allows more",
    ),
    "a stage that the mesh lacks": (
        lambda: kz.compile(add_one, mesh="stage=1", placements={"0": 1})(X),
        kz.DeviceError,
        "is placed at stage 1; mesh(stage=1) has stages 0 to 0",
    ),
    "a mesh's size": (lambda: kz.Mesh(data=2.5), kz.UserError, "Mesh: axis data must have an integer size, got 2.5"),
    "a mesh's text": (lambda: kz.Mesh("data=x"), kz.Error, "expected an integer"),
    "a second world": (lambda: (kz.init(), kz.init()), kz.UserError, "karez.init: the default world exists already"),
    "P": (lambda: P("data", 3), kz.LayoutError, "P: expected names of mesh axes or None, got 3"),
    "no function": (lambda: kz.compile(3), kz.UserError, "compile: expected a function, got int"),
    "micro-batches": (
        lambda: kz.compile(lambda x: x, microbatches=0)(X),
        kz.UserError,
        "microbatches is 0; it must be at least 1",
    ),
    "micro-batches that do not divide": (lambda: kz.compile(lambda x: x.sum(), microbatches=3)(X), kz.Error, "3"),
    "an unknown remat module": (lambda: kz.compile(nn.Sequential(nn.Linear(6, 2)), remat="7")(X), kz.NameError, "'7'"),
    "gelu": (
        lambda: kz.compile(lambda x: F.gelu(x, approximate="erf"))(X),
        kz.UserError,
        "gelu: approximate must be 'none' or 'tanh', got 'erf'",
    ),
    "cross_entropy": (
        lambda: kz.compile(lambda x: F.cross_entropy(x, np.zeros(4, int), reduction="most"))(X),
        kz.UserError,
        "cross_entropy: reduction must be 'mean', 'sum' or 'none', got 'most'",
    ),
    "a label": (lambda: kz.compile(lambda x: F.cross_entropy(x, np.array([0, 1, 9, 0])))(X).numpy(), kz.Error, "label"),
    "split": (
        lambda: kz.compile(lambda x: x.split([1, 2], dim=1))(X),
        kz.ShapeError,
        "split: sizes [1, 2] do not add up to 6",
    ),
    "pickling": (
        lambda: __import__("pickle").dumps(add_one(X)),
        kz.UserError,
        "a tensor cannot be pickled; kz.save(path)",
    ),
    "load": (lambda: kz.load("/nowhere/at/all"), kz.DataError, "/nowhere/at/all"),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_errors_name_the_fault_and_the_fix(name):
    global leak, array, w
    call, kind, text = GOLDEN[name]
    if "leak" in call.__code__.co_names or name == "a tensor of another trace":
        leak = leak_tensor()
    if name == "an array from outside":
        array = add_one(X)
    if "w" in call.__code__.co_names or "step" in name:
        w = nn.Parameter([1.0], name="w")
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)


def test_errors_name_the_line_where_the_op_was_written():
    def body(x):
        y = x.exp()
        return nn.functional.linear(y, np.ones((3, 5), np.float32))  # the line that the error must name

    with pytest.raises(kz.ShapeError) as caught:
        kz.compile(body)(X)
    line = body.__code__.co_firstlineno + 2
    assert f"\n  at test_errors.py:{line}" in str(caught.value) and caught.value.where == f"test_errors.py:{line}"


def test_errors_in_a_launch_name_the_line_of_the_op():
    def body(x, y):
        return F.cross_entropy(x, y)  # the line that the error must name

    with pytest.raises(kz.Error, match=f"test_errors.py:{body.__code__.co_firstlineno + 1}"):
        kz.compile(body)(X, np.array([0, 1, 9, 0])).numpy()
    kz.reset()


def test_tracebacks_show_only_the_frames_of_the_program(monkeypatch):
    def body(x):
        return nn.Linear(5, 2)(x)

    def files():
        with pytest.raises(kz.ShapeError) as caught:
            kz.compile(body)(X)
        return [entry.path.name for entry in caught.traceback]

    assert files() == ["test_errors.py", "compiled_function.py", "test_errors.py"], (
        "of the package's frames, only the one that raises the error again may be shown"
    )
    monkeypatch.setenv("KAREZ_TRACEBACK", "full")
    assert {"module.py", "layers.py"} <= set(files())


def test_error_classes_derive_from_classes_of_python():
    assert (
        issubclass(kz.ShapeError, ValueError)
        and issubclass(kz.TypeError, TypeError)
        and issubclass(kz.ShapeError, kz.Error)
    )
    assert {subclass.__name__ for subclass in kz.Error.__subclasses__()} == {
        f"{kind}Error" for kind in ("User", "Shape", "Type", "Layout", "Name", "Device", "Peer", "Hang", "Data")
    }


def test_an_exception_in_the_body_reaches_the_user_unchanged():
    class Mine(Exception):
        pass

    def body(x):
        raise Mine("own")

    with pytest.raises(Mine, match="own"):
        kz.compile(body)(X)
    assert float(kz.compile(lambda x: x * 2)(1.0)) == 2
