"""Functions that convert arrays to tensors, create tensors without values, and ask for dtypes and memory, as in
PyTorch."""

import numpy as np
import pytest

import karez as kz

SIZES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "int32": 4, "uint8": 1, "bool": 1}


@pytest.mark.parametrize("dtype", SIZES)
def test_the_element_size_and_kind_of_each_dtype(dtype):
    x = kz.tensor([[1, 0, 1]]).to(dtype)
    assert x.element_size() == SIZES[dtype] and x.nelement() == x.numel() == 3
    assert x.is_floating_point() == kz.is_floating_point(x) == ("float" in dtype)
    assert not x.is_complex() and not kz.is_complex(x)
    same = kz.tensor([2.0]).type_as(x)
    assert same.dtype is x.dtype
    for made, value in ((x.new_zeros(2, 3), 0), (x.new_ones((2, 3)), 1), (x.new_full((2, 3), 1), 1)):
        assert made.dtype is x.dtype and made.int().tolist() == [[value] * 3] * 2
    for empty, shape in ((x.new_empty(0, 3), (0, 3)), (kz.empty_like(x), (1, 3)), (x.new_empty(()), ())):
        assert empty.dtype is x.dtype and empty.shape == shape
    assert kz.empty((4,), dtype=dtype).dtype is x.dtype


def test_new_tensors_take_a_dtype_and_a_device_and_can_be_leaves():
    x = kz.tensor([1.0])
    assert x.new_zeros(2, dtype=kz.int32).dtype is kz.int32
    leaf = x.new_full((2,), 3.0, requires_grad=True)
    (leaf * leaf).sum().backward()
    assert leaf.grad.tolist() == [6.0, 6.0]
    for make in (x.new_empty, x.new_ones, kz.empty):
        assert make(2, device="cpu").shape == (2,)
        with pytest.raises(kz.UserError, match="device 'cuda' does not exist"):
            make(2, device="cuda")


def test_pinned_memory_has_no_effect():
    x = kz.tensor([1.0])
    assert x.pin_memory() is x and not x.is_pinned()
    with pytest.raises(kz.UserError, match="pin_memory: device 'cuda' does not exist"):
        x.pin_memory("cuda")


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_])
def test_arrays_are_copied_with_their_dtype(dtype):
    array = (np.arange(6).reshape(2, 3) % 2).astype(dtype)[:, ::2]
    for make in (kz.from_numpy, kz.as_tensor):
        x = make(array)
        assert x.dtype.name == array.dtype.name
        expected = array.tolist()
        array[0, 0] = not array[0, 0]
        assert x.tolist() == expected and array.tolist() != expected
    assert kz.from_numpy(np.zeros((0, 2), dtype)).shape == (0, 2)


def test_as_tensor_returns_tensors_and_converts_other_values():
    x = kz.tensor([1.5], requires_grad=True)
    assert kz.as_tensor(x) is x and kz.as_tensor(x, dtype=kz.float32) is x
    assert kz.as_tensor(x, dtype=kz.int64).tolist() == [1]
    assert kz.as_tensor([1.5]).dtype is kz.float32 and kz.as_tensor(2).dtype is kz.int64
    with pytest.raises(kz.UserError, match="as_tensor: device 'cuda' does not exist"):
        kz.as_tensor(x, device="cuda")
    with pytest.raises(kz.TypeError, match="from_numpy: expected a NumPy array, got list"):
        kz.from_numpy([1.5])


def test_these_functions_work_in_compiled_functions():
    def values(x):
        assert x.element_size() == 4 and x.is_floating_point() and x.pin_memory() is x
        return x.new_ones(2) + kz.as_tensor(x) + kz.empty_like(x) * 0, kz.as_tensor(np.arange(2)).type_as(x)

    results = kz.compile(values)(np.array([1, 2], np.float32))
    assert [result.tolist() for result in results] == [[2, 3], [0, 1]]
