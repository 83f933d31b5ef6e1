"""Functions and methods that ported programs call: as_tensor, from_numpy, new_zeros and others."""

import numpy as np
import pytest

import karez as kz


def test_as_tensor_returns_a_tensor_unchanged_and_copies_other_data():
    x = kz.tensor([1.0, 2.0])
    assert kz.as_tensor(x) is x and kz.as_tensor(x, dtype=kz.float32) is x
    assert kz.as_tensor(x, dtype=kz.int64).dtype is kz.int64
    array = np.array([1, 2])
    made, other = kz.from_numpy(array), kz.as_tensor(array)
    array[0] = 9
    assert made.tolist() == other.tolist() == [1, 2] and made.dtype is kz.int64
    assert kz.as_tensor([1.5]).dtype is kz.float32
    with pytest.raises(kz.TypeError, match="expected a NumPy array, got list"):
        kz.from_numpy([1])


@pytest.mark.parametrize(
    "dtype", [kz.float64, kz.float32, kz.bfloat16, kz.float16, kz.int64, kz.int32, kz.uint8, kz.bool_]
)
def test_new_tensors_have_the_dtype_of_the_tensor(dtype):
    x = kz.zeros(2, dtype=dtype)
    for made in (x.new_zeros(2, 3), x.new_ones((2, 3)), x.new_full((2, 3), 1), x.new_empty(2, 3), kz.empty_like(x)):
        assert made.dtype is dtype
    assert x.new_ones(2, 0).shape == (2, 0) and x.new_zeros(2, 3).shape == (2, 3)
    assert x.new_full((2,), 1).float().tolist() == [1, 1] == x.new_tensor([1, 1]).float().tolist()
    assert x.new_tensor([1]).dtype is dtype and x.new_zeros(1, dtype=kz.int32).dtype is kz.int32
    assert kz.zeros(1).type_as(x).dtype is dtype
    assert x.is_floating_point() == kz.is_floating_point(x) == ("float" in dtype.name) and not x.is_complex()


def test_sizes_are_those_of_pytorch():
    sizes = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "int32": 4, "uint8": 1, "bool": 1}
    for name, size in sizes.items():
        assert kz.zeros(1).to(name).element_size() == size
    x = kz.empty(2, 3)
    assert x.shape == (2, 3) and x.nelement() == 6 and x.pin_memory() is x and not x.is_pinned()
    assert kz.compile(lambda x: x.new_ones(3) + x.type_as(x))(np.ones(3, np.float32)).tolist() == [2, 2, 2]


def test_an_error_of_a_wrong_number_of_arguments_names_the_method():
    with pytest.raises(TypeError, match=r"Tensor.float\(\) takes 1 positional argument but 2 were given"):
        kz.zeros(1).float("x")
    for name in dir(kz.Tensor):
        assert "<lambda>" not in getattr(getattr(kz.Tensor, name), "__qualname__", ""), name
