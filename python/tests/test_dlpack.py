"""Memory shared with other libraries, in both directions: it is not copied, is read-only, and lives long enough."""

import ctypes
import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import karez as kz

X = np.arange(24, dtype=np.float32).reshape(4, 6)
DTYPES = ["float32", "float64", "int32", "int64", "bool"]


def make_tensor(x=X, **options):
    return kz.compile(lambda a: a + 0 if a.dtype is not kz.bool_ else a & True, **options)(x)


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_reads_a_tensor_without_a_copy_and_cannot_write_it(dtype):
    x = make_tensor(X.astype(dtype))
    by_buffer, by_dlpack, view = np.asarray(x), np.from_dlpack(x), memoryview(x)
    for array in (by_buffer, by_dlpack, np.asarray(view)):
        np.testing.assert_array_equal(array, X.astype(dtype))
        assert array.dtype == dtype and not array.flags.writeable and address(array) == address(by_buffer)
    assert view.readonly and view.shape == (4, 6) and x.__dlpack_device__() == (1, 0)
    with pytest.raises((BufferError, ValueError)):
        by_buffer[0] = 1
    with pytest.raises((BufferError, TypeError)):
        (ctypes.c_char * view.nbytes).from_buffer(x)
    assert x.numpy().flags.writeable and address(x.numpy()) != address(by_buffer), "numpy() returns a separate copy"


def test_a_replicated_tensor_is_exported_and_a_split_one_is_an_error():
    kz.init(devices=2)
    np.testing.assert_array_equal(np.from_dlpack(make_tensor(mesh="data=2")), X)
    split = kz.compile(lambda a: kz.with_layout(a + 0, "data", None), mesh="data=2")(X)
    with pytest.raises(
        kz.LayoutError, match=r"f32\[4@data, 6\] is split over several devices.*x.numpy\(\) assembles it"
    ):
        split.__dlpack__()
    with pytest.raises(BufferError, match="x.numpy"):
        memoryview(split)
    np.testing.assert_array_equal(np.asarray(split), X)


def test_values_of_a_trace_and_parameters_cannot_be_exported():
    with pytest.raises(kz.UserError, match="has no value yet"):
        kz.compile(lambda a: np.from_dlpack(a))(X)
    with pytest.raises(kz.UserError, match="has no array of its own"):
        np.from_dlpack(kz.nn.Parameter(X, name="w"))


def test_memory_lives_as_long_as_its_last_reference():
    held_bytes = lambda: kz.worlds.world().held_bytes()
    x = make_tensor()
    with_x = held_bytes()
    array, view = np.from_dlpack(x), memoryview(x)
    del x
    gc.collect()
    assert held_bytes() == with_x
    np.testing.assert_array_equal(array, X)
    del view
    assert held_bytes() == with_x
    del array
    gc.collect()
    assert held_bytes() < with_x
    array = np.asarray(make_tensor(X * 2))
    kz.reset()
    kz.worlds._end()
    gc.collect()
    np.testing.assert_array_equal(array, X * 2)


def test_an_unused_capsule_releases_its_memory():
    make_tensor()
    before = kz.worlds.world().held_bytes()
    for _ in range(20):
        make_tensor().__dlpack__()
        np.from_dlpack(make_tensor())
    gc.collect()
    assert kz.worlds.world().held_bytes() <= before


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_of_another_library_is_imported_without_a_copy(dtype):
    array = X.astype(dtype)
    x, transposed = kz.from_dlpack(array), kz.from_dlpack(array.T)
    assert address(np.asarray(x)) == address(array) != address(np.asarray(transposed)), "only row-major data is shared"
    np.testing.assert_array_equal(make_tensor(x).numpy(), array)
    np.testing.assert_array_equal(transposed.numpy(), X.T.astype(dtype))
    imported = kz.from_dlpack(x)
    assert address(np.asarray(imported)) == address(array) and not np.asarray(imported).flags.writeable
    assert float(make_tensor(kz.from_dlpack(np.ones((), np.float32)))) == 1
    assert kz.from_dlpack(np.ones((0, 3), np.float32)).shape == (0, 3)
    other = address(np.asarray(kz.tensor(array)))
    assert other != address(array), "kz.tensor must copy the array"


def test_a_call_reads_an_imported_tensor_without_a_copy():
    array = X.copy()
    x = kz.from_dlpack(array)
    f = kz.compile(lambda a: a + 0)
    f(x)
    array[...] = 5  # users must not do this; it shows that the tensor is not a copy
    np.testing.assert_array_equal(f(x).numpy(), array)
    np.testing.assert_array_equal(x.numpy(), array)


def test_unaligned_memory_is_copied():
    array = np.frombuffer(bytearray(41), np.uint8)[1:].view(np.float32)
    assert not array.flags.aligned
    assert address(np.asarray(kz.from_dlpack(array))) != address(array) and kz.from_dlpack(array).shape == (10,)


def test_imported_memory_lives_until_its_last_use():
    def alive():
        gc.collect()
        kz.barrier()
        return weak() is not None

    class Watched(np.ndarray):
        pass

    array = X.copy().view(Watched)
    weak = weakref.ref(array)
    x = kz.from_dlpack(array)
    del array
    assert alive()
    view, y = np.asarray(x), kz.compile(lambda a: a * 2)(x)
    del x
    np.testing.assert_array_equal(y.numpy(), X * 2)
    assert alive()
    np.testing.assert_array_equal(view, X)
    del view
    for _ in range(50):  # a thread of the plan releases the last arguments after the next call
        if not alive():
            break
        kz.compile(lambda a: a * 3)(X).numpy()
        del y
        y = None  # noqa: F841 (for `del y` in the next iteration)
    assert not alive()


def test_memory_at_the_end_of_a_page_is_not_overread():
    program = """
import ctypes, mmap
import numpy as np
import karez as kz
size = mmap.PAGESIZE
memory = mmap.mmap(-1, 4 * size)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + 3 * size), ctypes.c_size_t(size), 0) == 0
for shape in ((7, 9), (5, 3, 11), (33,), (1,)):
    count = int(np.prod(shape))
    array = np.frombuffer(memory, np.float32, count, 3 * size - 4 * count).reshape(shape)
    x = kz.from_dlpack(array)
    kz.compile(lambda a: kz.exp(a) + a)(x).numpy()
    kz.compile(lambda a: a.sum() + a.max())(x).numpy()
    if len(shape) == 2:
        kz.compile(lambda a: a @ a.T)(x).numpy()
        kz.compile(lambda a: kz.F.softmax(a, -1).sum(0))(x).numpy()
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env={**__import__("os").environ, "PYTHONPATH": str(kz.__path__[0]) + "/.."},
    )
    assert done.returncode == 0 and done.stdout == "fine\n", (done.returncode, done.stderr)


@pytest.mark.parametrize(
    "thing, error, text",
    [
        ([1, 2], kz.TypeError, "expected an object with __dlpack__, got list; kz.tensor accepts"),
        (np.ones(2, np.int16), kz.TypeError, "unsupported array dtype int16"),
        (
            type("Gpu", (), {"__dlpack__": None, "__dlpack_device__": lambda self: (2, 0)})(),
            kz.DeviceError,
            r"on device \(2, 0\), but must be on the CPU",
        ),
    ],
)
def test_unsupported_imports_are_errors(thing, error, text):
    with pytest.raises(error, match=text):
        kz.from_dlpack(thing)


def test_a_stream_is_an_error():
    with pytest.raises(kz.DeviceError, match="stream must be None on the CPU, got 3"):
        make_tensor().__dlpack__(stream=3)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_tensors_are_shared_with_other_libraries_in_both_directions(library):
    pytest.importorskip(library)
    program = f"""
import gc, warnings
import numpy as np
warnings.simplefilter("ignore")  # PyTorch warns about tensors that must not be written
import {"torch" if library == "torch" else "jax, jax.numpy"}
import karez as kz
X = np.arange(24, dtype=np.float32).reshape(4, 6)
x = kz.compile(lambda a: a * 2)(X)
theirs = {"torch.from_dlpack(x)" if library == "torch" else "jax.dlpack.from_dlpack(x)"}
{'assert theirs.data_ptr() == np.asarray(x).__array_interface__["data"][0]' if library == "torch" else ""}
del x
gc.collect()
assert (np.asarray(theirs) == X * 2).all()
back = kz.from_dlpack(theirs.T + 1)
assert (kz.compile(lambda a: a - 1)(back).numpy() == X.T * 2).all()
assert (kz.compile(lambda a: a - 1)(theirs).numpy() == X * 2 - 1).all()
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env={**__import__("os").environ, "PYTHONPATH": str(kz.__path__[0]) + "/.."},
    )
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr
