"""Tests of kz.vmap: dimensions, structures, random numbers, chunks, gradients, meshes and errors."""

import numpy as np
import pytest

import karez as kz

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 4)).astype(np.float32)
W = RNG.standard_normal((4, 3)).astype(np.float32)


def both(function, *args):
    """The results outside of a compiled function and in one, which must be equal."""
    outside, inside = function(*args).numpy(), kz.compile(function)(*args).numpy()
    np.testing.assert_allclose(outside, inside, 1e-6, 1e-6)
    return outside


def test_dimensions_of_arguments_and_results():
    x, w = kz.tensor(X), kz.tensor(W)
    np.testing.assert_allclose(both(kz.vmap(lambda a: a @ W, in_dims=0), x), X @ W, 1e-5, 1e-6)
    np.testing.assert_allclose(both(kz.vmap(lambda a: a.sum(), in_dims=1), x), X.sum(0), 1e-5, 1e-6)
    np.testing.assert_allclose(both(kz.vmap(lambda a: a * 2, in_dims=-1, out_dims=-1), x), X * 2)
    np.testing.assert_allclose(both(kz.vmap(lambda a: a * 2, out_dims=1), x), X.T * 2)
    np.testing.assert_allclose(both(kz.vmap(lambda a, b: a @ b, in_dims=(0, None)), x, w), X @ W, 1e-5, 1e-6)
    np.testing.assert_allclose(both(kz.vmap(lambda a, b: a @ b, in_dims=(None, 1)), x, w), (X @ W).T, 1e-5, 1e-6)


def test_structures_of_arguments_and_results():
    pair = kz.vmap(lambda p, k: {"sum": p["a"] + p["b"][0], "k": (p["a"] * k,)}, in_dims=({"a": 0, "b": (1,)}, None))
    found = pair({"a": kz.tensor(X), "b": (kz.tensor(X.T),)}, 3)
    np.testing.assert_allclose(found["sum"].numpy(), X * 2)
    np.testing.assert_allclose(found["k"][0].numpy(), X * 3)
    first, second = kz.vmap(lambda a: (a, a.sum()), out_dims=(1, 0))(kz.tensor(X))
    assert first.shape == (4, 5) and second.shape == (5,)
    assert kz.vmap(lambda a, *, scale: a * scale)(kz.tensor(X), scale=kz.tensor(W[0, 0])).shape == (5, 4)


def test_a_result_that_does_not_depend_on_the_batch_is_repeated_or_returned_once():
    np.testing.assert_array_equal(kz.vmap(lambda a: kz.ones(2))(kz.tensor(X)).numpy(), np.ones((5, 2)))
    assert kz.vmap(lambda a: kz.ones(2), out_dims=None)(kz.tensor(X)).shape == (2,)


def test_nested_vmap():
    def outer(x, y):
        return kz.vmap(kz.vmap(lambda a, b: kz.sin(a) * b, in_dims=(0, None)), in_dims=(None, 0))(x, y)

    np.testing.assert_allclose(both(outer, kz.tensor(X[0]), kz.tensor(X[1])), np.sin(X[0]) * X[1][:, None], 1e-5, 1e-6)


@pytest.mark.parametrize("size", [0, 1])
def test_a_batch_of_no_or_one_element(size):
    x, w = kz.tensor(X[:size]), kz.tensor(RNG.standard_normal((size, 4, 3)).astype(np.float32))
    assert both(kz.vmap(lambda a, b: kz.softmax(a @ b, 0)), x, w).shape == (size, 3)
    image, weight = kz.zeros(size, 2, 3, 6, 6), kz.zeros(size, 4, 3, 3, 3)
    assert both(kz.vmap(lambda a, b: kz.F.conv2d(a, b)), image, weight).shape == (size, 2, 4, 4, 4)


def test_random_numbers():
    x = kz.tensor(X)
    with pytest.raises(kz.Error, match=r"random_uniform at test_vmap.py:\d+: vmap: random numbers"):
        kz.vmap(lambda a: a + kz.rand(4))(x)
    same = kz.vmap(lambda a: kz.rand(4) + a * 0, randomness="same")(x).numpy()
    assert (same == same[0]).all()
    different = kz.vmap(lambda a: kz.rand(4) + a * 0, randomness="different")(x).numpy()
    assert len(np.unique(different)) == 20
    mask = kz.vmap(lambda a: kz.F.dropout(a, 0.5, training=True), randomness="different")(kz.ones(64, 32)).numpy()
    assert set(np.unique(mask)) == {0, 2} and len({row.tobytes() for row in mask}) == 64
    with pytest.raises(kz.Error, match="randomness must be 'error', 'same' or 'different', got 'other'"):
        kz.vmap(lambda a: a, randomness="other")


@pytest.mark.parametrize("chunk_size", [1, 2, 5, 9])
def test_chunks_change_no_result_and_no_random_number(chunk_size):
    def noise(size):
        kz.seed(7)
        function = kz.vmap(lambda a: a + kz.rand(4), randomness="different", chunk_size=size)
        return kz.compile(function)(kz.tensor(X)).numpy()

    np.testing.assert_array_equal(noise(chunk_size), noise(None))


def test_gradients_of_each_element_and_gradients_of_a_mapped_function():
    w, x, y = kz.tensor(W), kz.tensor(X), kz.tensor(RNG.standard_normal((5, 3)).astype(np.float32))

    def loss(w, a, b):
        return ((kz.tanh(a @ w) - b) ** 2).sum()

    each = both(kz.vmap(kz.func.grad(loss), in_dims=(None, 0, 0)), w, x, y)
    hidden = np.tanh(X @ W)
    slopes = 2 * (hidden - y.numpy()) * (1 - hidden**2)
    np.testing.assert_allclose(each, X[:, :, None] * slopes[:, None, :], 1e-4, 1e-5)
    total = both(kz.func.grad(lambda w, x, y: kz.vmap(loss, in_dims=(None, 0, 0))(w, x, y).sum()), w, x, y)
    np.testing.assert_allclose(total, each.sum(0), 1e-4, 1e-5)


def test_gradients_of_each_element_with_respect_to_parameters():
    net = kz.nn.Linear(4, 3)

    def gradients(a):
        return kz.grad((net(a) ** 2).sum(), [net.weight])[0]

    found = both(kz.vmap(gradients), kz.tensor(X))
    expected = 2 * net(kz.tensor(X)).numpy()[:, :, None] * X[:, None, :]
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def test_scaled_losses_do_not_scale_the_gradients_of_each_element():
    net = kz.nn.Linear(4, 3)
    opt = kz.optim.SGD(net.parameters(), lr=0.1)

    @kz.compile(amp="f16")
    def step(x):
        gradients = kz.vmap(lambda a: kz.grad((net(a) ** 2).sum(), net.parameters()))(x)
        opt.step([gradient.mean(0) for gradient in gradients])
        return gradients[0]

    x = kz.tensor(X)
    before, expected = net.weight.numpy().copy(), 2 * net(x).numpy()[:, :, None] * X[:, None, :]
    np.testing.assert_allclose(step(x).numpy(), expected, 2e-2, 1e-2)
    np.testing.assert_allclose(net.weight.numpy(), before - 0.1 * expected.mean(0), 1e-2, 2e-3)


def test_gradients_flow_from_a_mapped_function_to_leaves_outside():
    w = kz.tensor(W, requires_grad=True)
    kz.vmap(lambda a: (a @ w).sum())(kz.tensor(X)).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.repeat(X.sum(0)[:, None], 3, 1), 1e-5, 1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_scans_in_a_mapped_function(axis):
    def run(rows):
        return kz.scan(lambda carry, row: (carry * 0.5 + row, carry.sum()), kz.zeros(4), rows)

    x = RNG.standard_normal((6, 6, 4)).astype(np.float32)
    carry, sums = kz.compile(kz.vmap(run, in_dims=axis))(kz.tensor(x))
    for element in range(6):
        expected = run(kz.tensor(x.take(element, axis)))
        np.testing.assert_allclose(carry[element].numpy(), expected[0].numpy(), 1e-5, 1e-6)
        np.testing.assert_allclose(sums[element].numpy(), expected[1].numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize(("table", "index"), [(0, None), (None, 0), (0, 0)])
def test_rows_of_tables_by_index_and_their_gradients(table, index):
    tables = RNG.standard_normal((5, 6, 3)).astype(np.float32)
    indices = RNG.integers(0, 6, (5, 2, 4))
    t = tables if table == 0 else tables[0]
    i = indices if index == 0 else indices[0]

    def loss(a, b):
        return (kz.F.embedding(b, a) ** 3).sum()

    found = both(kz.vmap(kz.func.grad(loss), in_dims=(table, index)), kz.tensor(t), kz.tensor(i))
    for element in range(5):
        a, b = (t[element] if table == 0 else t), (i[element] if index == 0 else i)
        expected = np.zeros_like(a)
        np.add.at(expected, b, 3 * a[b] ** 2)
        np.testing.assert_allclose(found[element], expected, 1e-4, 1e-5)


def test_an_index_out_of_range_in_one_element_is_an_error():
    tables, indices = kz.zeros(2, 3, 4), kz.tensor(np.array([[0, 3], [0, 1]]))
    with pytest.raises(kz.DataError):
        kz.vmap(lambda a, b: kz.F.embedding(b, a))(tables, indices).numpy()
    kz.reset()


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0)])
def test_convolutions_and_their_gradients(dims, groups):
    x, w = RNG.standard_normal((3, 2, 4, 6, 6)), RNG.standard_normal((3, 6, 4 // groups, 3, 3))
    args = [kz.tensor(value if dim == 0 else value[0]) for value, dim in zip((x, w), dims)]

    def both_gradients(a, b):
        return kz.func.grad(lambda a, b: (kz.F.conv2d(a, b, stride=2, padding=1, groups=groups) ** 3).sum(), (0, 1))(
            a, b
        )

    found = kz.compile(kz.vmap(both_gradients, in_dims=dims))(*args)
    for element in range(3):
        expected = both_gradients(*[a[element] if dim == 0 else a for a, dim in zip(args, dims)])
        for got, want in zip(found, expected):
            np.testing.assert_allclose(got[element].numpy(), want.numpy(), 1e-9, 1e-9)


@pytest.mark.parametrize("mesh", [{"data": 2}, {"data": 3}, {"data": 2, "model": 2}])
def test_meshes_change_no_result(mesh):
    x = RNG.standard_normal((7, 4))
    w = RNG.standard_normal((4, 3))

    def step(x, w):
        gradients = kz.vmap(kz.func.grad(lambda w, a: (kz.tanh(a @ w) ** 2).sum()), in_dims=(None, 0))(w, x)
        return kz.vmap(lambda a: kz.softmax(a @ w, 0))(x), gradients, gradients.sum(0)

    def sharded(x, w):
        return step(kz.with_layout(x, kz.P("data", None)), w)

    plain = kz.compile(step)(kz.tensor(x), kz.tensor(w))
    found = kz.compile(sharded, mesh=kz.Mesh(**mesh))(kz.tensor(x), kz.tensor(w))
    for got, want in zip(found, plain):
        np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-12, 1e-12)


def test_wrong_arguments_are_errors():
    x = kz.tensor(X)
    for call, text in [
        (lambda: kz.vmap(lambda a, b: a)(x, kz.tensor(W)), r"same size in the mapped dimension, got sizes \[5, 4\]"),
        (lambda: kz.vmap(lambda a: a, in_dims=None)(x), "in_dims must be an int or a tuple"),
        (lambda: kz.vmap(lambda a: a, in_dims=(None,))(x), "at least one tensor must be mapped"),
        (lambda: kz.vmap(lambda a: a, in_dims=2)(x), "dimension 2, which does not exist"),
        (lambda: kz.vmap(lambda a, b: a)(x, 3.0), "3.0 is no tensor; in_dims must have the entry None"),
        (lambda: kz.vmap(lambda a: a, in_dims=(0, 0))(x), "in_dims has 2 entries, but the function got 1"),
        (lambda: kz.vmap(lambda a: a, in_dims=((0, 0),))(x), "does not have the structure of the argument"),
        (lambda: kz.vmap(lambda a: a, out_dims=3)(x), "out_dims has dimension 3"),
        (lambda: kz.vmap(lambda a: a, out_dims=None)(x), "out_dims is None for a result that depends"),
        (lambda: kz.vmap(lambda a: 3)(x), "must return tensors"),
        (lambda: kz.vmap(lambda a: (a.sum().backward(), a)[1])(x), "gradients cannot be added to those of parameters"),
        (lambda: kz.vmap(lambda: 3)(), "at least one positional argument"),
        (lambda: kz.vmap(lambda a: a, chunk_size=0), "chunk_size must be None or at least 1, got 0"),
    ]:
        with pytest.raises((kz.Error, TypeError, ValueError), match=text):
            call()
