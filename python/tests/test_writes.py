"""Writes to tensors: in-place methods, views, parameters and errors, outside of and in compiled functions."""

import copy

import numpy as np
import pytest

import karez as kz
from karez import F, nn


def arange(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def test_an_alias_reads_the_new_value():
    x = kz.tensor(arange(3))
    y = x
    y += 1
    assert x is y and x.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "make_view",
    [
        lambda x: x[1],
        lambda x: x[:, ::2],
        lambda x: x[::-1],
        lambda x: x[None, ..., 1:],
        lambda x: x.T,
        lambda x: x.reshape(4, 3),
        lambda x: x.view(-1),
        lambda x: x.flatten(),
        lambda x: x.unsqueeze(1),
        lambda x: x.unsqueeze(1).squeeze(1),
        lambda x: x.permute(1, 0),
        lambda x: x.narrow(1, 1, 2),
        lambda x: x.select(0, 2),
        lambda x: x.unbind(1)[2],
        lambda x: list(x)[1],
        lambda x: x.chunk(2, 1)[1],
        lambda x: x.split([1, 3], 1)[1],
        lambda x: x.diagonal(),
        lambda x: x.detach(),
        lambda x: x.data,
        lambda x: x.unflatten(1, (2, 2)),
        lambda x: x.to(kz.float32),
        lambda x: x.float(),
        lambda x: x.contiguous(),
        lambda x: copy.copy(x),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_write_to_a_view_changes_its_base_and_the_reverse(make_view, compiled):
    def program(a):
        x = a + 1
        view = make_view(x)
        view *= 10
        first = view.clone()
        x -= 5
        return x, view, first

    x, view, first = (kz.compile(program) if compiled else program)(kz.tensor(arange(3, 4)))
    base = arange(3, 4) + 1
    positions = make_view(kz.tensor(arange(3, 4))).numpy().astype(int)
    expected = base.reshape(-1).copy()
    expected[positions] *= 10
    assert first.tolist() == expected[positions].tolist()
    assert x.tolist() == (expected - 5).reshape(3, 4).tolist()
    assert view.tolist() == (expected[positions] - 5).tolist()


@pytest.mark.parametrize(
    "make_copy",
    [
        lambda x: x.clone(),
        lambda x: copy.deepcopy(x),
        lambda x: x.T.reshape(-1),
        lambda x: x.T.contiguous(),
        lambda x: x[[0, 1, 2]],
        lambda x: x[x > -1],
        lambda x: x.flip([]),
        lambda x: x.roll(0, 0),
        lambda x: x.repeat(1, 1),
        lambda x: x.repeat_interleave(1, 0),
        lambda x: x.double().float(),
        lambda x: kz.cat([x]),
        lambda x: kz.diag(x),
        lambda x: F.adaptive_avg_pool2d(x[None, None], (3, 4)),
        lambda x: F.relu(x),
    ],
)
def test_a_write_to_a_copy_changes_nothing_else(make_copy):
    x = kz.tensor(arange(3, 4))
    duplicate = make_copy(x)
    duplicate.fill_(100)
    assert x.tolist() == arange(3, 4).tolist()
    assert (duplicate.numpy() == 100).all()


def test_views_of_views_and_of_freed_bases_follow_writes():
    x = kz.tensor(arange(2, 3, 4))
    y = x[1].T
    z = y[1:, ::2]
    del x
    z[0] = 50
    assert y.tolist()[1] == [50, 17, 50]
    w = y[3]
    del y, z
    w += 1
    assert w.tolist() == [16, 20, 24]


def test_the_other_dtypes():
    for dtype in (kz.float64, kz.int32, kz.int64, kz.bool_, kz.uint8, kz.float16, kz.bfloat16):
        x = kz.tensor(arange(2, 3)).to(dtype)
        x[0, 1:] = kz.tensor([0.0, 1.0])
        x[:, 0] = True
        assert x.to(kz.float32).tolist()[0] == [1, 0, 1] and x.dtype is dtype


def test_a_write_converts_to_the_dtype_of_the_tensor():
    x = kz.tensor([1, 2, 3])
    x[0] = 2.7
    x.copy_(x * 1.5)
    assert x.tolist() == [3, 3, 4] and x.dtype is kz.int64
    with pytest.raises(kz.TypeError, match=r"add_: the result f32\[3\] cannot be stored in i64\[3\]"):
        x += 0.5
    with pytest.raises(kz.TypeError, match="truediv_: the result"):
        x /= 2
    assert x.tolist() == [3, 3, 4]
    b = kz.tensor([True, False])
    with pytest.raises(kz.TypeError, match="cannot be stored in bool"):
        b += 1
    h = kz.tensor([1.0]).half()
    h += kz.tensor([0.5], dtype=np.float64)
    assert h.dtype is kz.float16 and h.item() == 1.5


def test_a_write_keeps_the_shape():
    x = kz.tensor(arange(3))
    with pytest.raises(kz.ShapeError, match=r"add_: a write must keep the shape f32\[3\]"):
        x += kz.tensor(arange(2, 3))
    with pytest.raises(kz.ShapeError, match="needs a value of this shape, or one that broadcasts to it"):
        x[:2] = kz.tensor(arange(3))
    x[:2] = kz.tensor(arange(1, 1, 2))  # leading dimensions of size 1 are dropped
    x[...] = np.float32(7)
    assert x.tolist() == [7, 7, 7]


def test_an_expanded_tensor_cannot_be_written():
    x = kz.tensor(arange(3))
    with pytest.raises(kz.UserError, match=r"an expanded tensor must not be written.*clone\(\)"):
        x.expand(2, 3).add_(1)
    x.expand(2, 3).clone().add_(1)
    assert x.tolist() == [0, 1, 2]


def test_methods_return_the_tensor():
    x = kz.tensor([-1.0, 2.5, 4.0])
    assert x.abs_() is x and x.sqrt_().mul_(2).clamp_(max=3).neg_() is x
    np.testing.assert_allclose(x.numpy(), [-2, -3, -3])
    assert x.zero_().add_(1, alpha=3).tolist() == [3, 3, 3]
    assert x.masked_fill_(np.array([True, False, False]), 9).tolist() == [9, 3, 3]
    assert x.index_fill_(0, np.array([1, 2]), 4).tolist() == [9, 4, 4]
    assert kz.zeros(3, 3).fill_diagonal_(2).tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]
    with pytest.raises(kz.ShapeError, match="fill_diagonal_: expected a matrix"):
        x.fill_diagonal_(1)


def test_the_last_of_equal_indices_counts():
    for index in (np.array([1, 0, 1]), kz.tensor(np.array([1, 0, 1]))):
        x = kz.tensor(arange(3))
        x[index] = kz.tensor([5.0, np.nan, -0.0])
        assert np.isnan(x.numpy()[0]) and np.signbit(x.numpy()[1]) and x.numpy()[2] == 2


def test_traced_indices_and_masks():
    @kz.compile
    def program(a, index, mask, number):
        x = a * 1
        x[index, 1:] = a[:2, 1:] * 10
        x[mask] = number
        y = x.clone()
        y[mask[:, 0]] = 0
        return x, y

    a, index, mask = arange(3, 3), np.array([2, 0]), arange(3, 3) % 4 == 0
    x, y = program(a, index, mask, -1.5)
    expected = a.copy()
    expected[index, 1:] = a[:2, 1:] * 10
    expected[mask] = -1.5
    np.testing.assert_array_equal(x.numpy(), expected)
    expected[mask[:, 0]] = 0
    np.testing.assert_array_equal(y.numpy(), expected)


def test_a_mask_with_several_values_is_an_error_in_a_compiled_function():
    @kz.compile
    def program(a, mask):
        x = a * 1
        x[mask] = a[:2]
        return x

    with pytest.raises(kz.TypeError, match=r"needs a single number; kz.where\(mask, values, x\)"):
        program(arange(3), arange(3) > 0)


def test_numbers_among_the_arguments_are_not_written():
    @kz.compile
    def program(x, n):
        m = n
        n += 1
        return x * n, x * m

    assert [r.tolist() for r in program(arange(2), 2)] == [[0, 3], [0, 2]]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.__setitem__(0, 1),
        lambda x: x[0].zero_(),
        lambda x: x.T.fill_(1),
        lambda x: setattr(x, "data", x * 2),
        lambda x: F.relu(x, inplace=True),
    ],
)
def test_an_argument_cannot_be_written(write):
    @kz.compile
    def program(weights, pair):
        write(pair["x"])
        return pair["x"]

    with pytest.raises(kz.UserError, match=r"the argument 'pair' of 'program' must not be written.*x\.clone\(\)"):
        program(arange(2), {"x": arange(2, 2)})

    @kz.compile
    def mended(x):
        y = x.clone()
        write(y)
        return y

    assert mended(arange(2, 2)).shape == (2, 2)


def test_a_tensor_from_outside_cannot_be_written_by_a_compiled_function():
    total = kz.tensor(arange(2))

    with pytest.raises(kz.UserError, match="from outside of the compiled function must not be written by it"):
        kz.compile(lambda x: total.copy_(x))(arange(2))
    with pytest.raises(kz.UserError, match="from outside is not part of the program that is being traced"):
        kz.compile(lambda x: total.add_(x))(arange(2))
    assert total.tolist() == [0, 1]


def test_a_value_from_outside_of_a_loop_cannot_be_written_in_it():
    @kz.compile
    def program(x):
        total = x[0] * 0

        def body(carry, row):
            total.add_(row)
            return carry + row, carry

        return kz.scan(body, x[0] * 0, x)

    with pytest.raises(kz.UserError, match="in the body of a loop"):
        program(arange(3, 2))


def test_in_place_modules_write_their_input():
    for layer in (nn.ReLU(inplace=True), nn.ReLU(True), nn.LeakyReLU(0.0, True), nn.ReLU6(inplace=True)):
        x = kz.tensor([-1.0, 2.0])
        assert layer(x) is x and x.tolist() == [0, 2]
        assert "inplace=True" in repr(layer)
    assert repr(nn.ReLU()) == "ReLU()"
    x = kz.tensor([1.0, 2.0])
    assert F.dropout(x, 1.0, True, inplace=True) is x and x.tolist() == [0, 0]
    assert nn.Dropout(0.5, inplace=True).inplace


def test_reading_between_writes_and_a_failed_write():
    x = kz.tensor(arange(4))
    v = x[1:3]
    for i in range(5):
        v += 1
        assert x.tolist() == [0, 2 + i, 3 + i, 3]
    with pytest.raises(kz.ShapeError):
        x[7] = 1
    with pytest.raises(kz.ShapeError):
        x[np.array([0, 4])] = 1
    with pytest.raises(kz.TypeError):
        x["a"] = 1
    x[np.array([], int)] = kz.tensor(arange(0))
    x[2:2] = 5
    assert x.tolist() == [0, 6, 7, 3] and v.tolist() == [6, 7]


def test_a_tensor_whose_numbers_a_program_contains_cannot_be_written():
    x, y = kz.tensor([2.0]), kz.tensor([3.0, 4.0])
    view = y[:1]

    @kz.compile
    def program(a):
        return a * x.item() * view.item()

    assert program(np.ones(1, np.float32)).item() == 6
    for tensor in (x, y, view):
        with pytest.raises(kz.UserError, match="after a compiled function has read its numbers while it was traced"):
            tensor += 1
    assert program(np.ones(1, np.float32)).item() == 6


def test_a_mask_of_several_dimensions_next_to_other_entries():
    a = arange(2, 3, 4)
    mask, wrong = a[:, :, 0] % 8 == 0, np.ones((3, 3), bool)
    x = kz.tensor(a)
    assert x[mask, 1:].tolist() == a[mask, 1:].tolist()
    assert x[..., a[0, 0] > 1].tolist() == a[..., a[0, 0] > 1].tolist()
    x[mask, 1:3] = -1
    a[mask, 1:3] = -1
    assert x.tolist() == a.tolist()
    last = a[0, 0] > 0
    assert x[mask][:, last].tolist() == x[mask, :][:, kz.tensor(last)].tolist() == a[mask][:, last].tolist()
    with pytest.raises(kz.ShapeError, match=r"a mask of shape \[4\] does not match the sizes \[\] of f32\[2, 3, 4\]"):
        x[np.ones((2, 3, 4), bool), np.ones(4, bool)]
    with pytest.raises(kz.ShapeError, match=r"a mask of shape \[3, 3\] does not match the sizes \[2, 3\]"):
        x[wrong]
    assert x[True].shape == (1, 2, 3, 4) and x[np.bool_(False)].shape == (0, 2, 3, 4)
