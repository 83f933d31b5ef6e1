"""Micro-batches: means are over the entire batch, batch norm normalises each micro-batch separately, and inputs with as
many rows as the batch may be unbatched."""

import numpy as np
import pytest

import karez as kz
from karez import F, nn

N, C = 16, 5
DRAW = np.random.default_rng(0)
X, BY_CLASS = DRAW.normal(size=(N, 6)), DRAW.uniform(0.5, 2, C)
Y = DRAW.integers(0, C, N)
Y[4:9] = 3  # if 3 is ignored, the second of four micro-batches has no valid label


def by_numpy(state, weight, ignored):
    """The loss and its gradients with respect to the weight and the bias of a linear layer."""
    logits = X @ state["fc.weight"].T + state["fc.bias"]
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    rows = (BY_CLASS[Y] if weight else np.ones(N)) * (Y != ignored)
    slope = (probabilities - np.eye(C)[Y]) * rows[:, None] / rows.sum()
    return -(rows * np.log(probabilities[np.arange(N), Y])).sum() / rows.sum(), slope.T @ X, slope.sum(0)


class Net(nn.Module):
    def __init__(self):
        self.same, self.fc = nn.Identity(), nn.Linear(6, C)

    def forward(self, x):
        return self.fc(self.same(x))


@pytest.mark.parametrize("weight, ignored", [(False, 3), (True, None), (True, 3)])
@pytest.mark.parametrize(
    "mesh, placements", [("", None), ("data=2", None), ("data=2,model=2", None), ("stage=2", {"same": 0, "fc": 1})]
)
def test_cross_entropy_is_averaged_over_the_entire_batch(mesh, placements, weight, ignored):
    net = Net().double()

    @kz.compile(mesh=mesh, placements=placements, microbatches=4)
    def step(x, y):
        loss = F.cross_entropy(net(x), y, kz.tensor(BY_CLASS) if weight else None, ignore_index=ignored)
        return loss, kz.grad(loss, net.parameters())

    loss, (by_weight, by_bias) = step(X, Y)
    want = by_numpy(net.state_dict(), weight, ignored)
    for value, item in zip((loss, by_weight, by_bias), want):
        np.testing.assert_allclose(value.numpy(), item, rtol=1e-10, atol=1e-12)


def test_label_smoothing_and_row_weights_apply_to_the_entire_batch():
    net, rows = Net().double(), DRAW.uniform(0, 1, N)
    for loss in (
        lambda y, x, w: F.cross_entropy(net(x), y, ignore_index=3, label_smoothing=0.1),
        lambda y, x, w: F.cross_entropy(net(x), y, row_weights=w),
        lambda y, x, w: F.nll_loss(F.log_softmax(net(x), 1), y, kz.tensor(BY_CLASS), ignore_index=3),
    ):
        full_batch, parts = (
            kz.compile(lambda y, x, w: [loss(y, x, w), *kz.grad(loss(y, x, w), net.parameters())], microbatches=m)(
                Y, X, rows
            )
            for m in (1, 8)
        )
        for item, part in zip(full_batch, parts):
            np.testing.assert_allclose(item.numpy(), part.numpy(), rtol=1e-10, atol=1e-12)


IMAGES = DRAW.normal(size=(8, 3, 2, 2)) * 2 + 1
PARTS = IMAGES.reshape(4, 2, 3, 2, 2)
NORMAL = ((PARTS - PARTS.mean((1, 3, 4), keepdims=True)) / np.sqrt(PARTS.var((1, 3, 4), keepdims=True) + 1e-5)).reshape(
    IMAGES.shape
)


@pytest.mark.parametrize("mesh", ["", "data=2"])
def test_batch_norm_normalises_each_micro_batch_separately(mesh):
    layer, scale = nn.BatchNorm2d(3).double(), np.cos(np.arange(IMAGES.size)).reshape(IMAGES.shape)

    @kz.compile(mesh=mesh, microbatches=4)
    def step(x, dy):
        y = layer(x)
        return y, *kz.grad((y * dy).sum(), [layer.weight, layer.bias])

    y, by_weight, by_bias = step(IMAGES, scale)
    np.testing.assert_allclose(y.numpy(), NORMAL, rtol=1e-9)
    np.testing.assert_allclose(by_weight.numpy(), (NORMAL * scale).sum((0, 2, 3)), rtol=1e-9)
    np.testing.assert_allclose(by_bias.numpy(), scale.sum((0, 2, 3)), rtol=1e-9)
    mean, var = np.zeros(3), np.ones(3)
    for part in PARTS:
        mean, var = 0.9 * mean + 0.1 * part.mean((0, 2, 3)), 0.9 * var + 0.1 * part.var((0, 2, 3), ddof=1)
    state = layer.state_dict()
    np.testing.assert_allclose(state["running_mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(state["running_var"], var, rtol=1e-9)
    assert state["num_batches_tracked"] == 4
    layer.eval()
    want = (IMAGES - mean[:, None, None]) / np.sqrt(var + 1e-5)[:, None, None]
    np.testing.assert_allclose(step(IMAGES, scale)[0].numpy(), want, rtol=1e-9)


def test_gradients_through_batch_norm_are_computed_for_each_micro_batch_separately():
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU()).double()
    slopes = lambda x: kz.grad((net(x) ** 3).sum(), net.parameters())
    compiled_slopes = kz.compile(slopes)
    want = [sum(item.numpy() for item in each) for each in zip(*(compiled_slopes(part) for part in PARTS))]
    for actual, expected in zip(kz.compile(slopes, microbatches=4)(IMAGES), want):
        np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-8, atol=1e-9)


def test_batch_norm_without_running_statistics_normalises_each_micro_batch():
    got = kz.compile(lambda x: F.batch_norm(x, None, None, training=True), microbatches=4)(IMAGES)
    np.testing.assert_allclose(got.numpy(), NORMAL, rtol=1e-9)


@pytest.mark.parametrize("unbatched", ["mask", ["mask"], 1])
def test_an_input_with_as_many_rows_as_the_batch_may_be_unbatched(unbatched):
    x, mask, extra = DRAW.normal(size=(4, 4)), np.tril(np.ones((4, 4))), {"at": np.arange(4.0), "by": np.ones(3)}

    def f(x, mask, extra=None):
        return x @ mask + (0 if extra is None else extra["at"])

    np.testing.assert_allclose(kz.compile(f, microbatches=2, unbatched=unbatched)(x, mask).numpy(), x @ mask)
    both = kz.compile(f, microbatches=2, unbatched=["mask", "extra"])
    np.testing.assert_allclose(both(x, mask, extra).numpy(), x @ mask + np.arange(4))
    np.testing.assert_allclose(both(x, extra=extra, mask=mask).numpy(), x @ mask + np.arange(4))
    first = kz.compile(lambda mask, x: x @ mask, microbatches=2, unbatched="mask")
    np.testing.assert_allclose(first(mask, DRAW.normal(size=(6, 4))).shape, (6, 4))


def test_invalid_micro_batches_are_errors():
    x = np.ones((4, 4))
    with pytest.raises(kz.UserError, match="an input of this length that is not a batch must be declared as unbatched"):
        kz.compile(lambda x, mask: x @ mask.T, microbatches=2)(x, x)
    with pytest.raises(kz.NameError, match="unbatched='maks' is not an argument of step, whose arguments are x, mask"):
        kz.compile(lambda x, mask: x, microbatches=2, unbatched="maks", name="step")(x, x)
