"""Tensors with a wrong number of dimensions, and dimensions that do not exist: the error is a ShapeError with the type
of the tensor and the line of the call."""

import numpy as np
import pytest

import karez as kz
from karez import F, nn

SHAPES = [(), (4,), (4, 4), (4, 4, 4), (4, 4, 4, 4), (4, 4, 2, 2, 2)]
INDEX = np.array([0])
LABELS = np.arange(4)
VECTOR = np.ones(4, np.float32)
MATRIX = np.ones((4, 4), np.float32)
LINES = np.ones((4, 4, 4), np.float32)
IMAGES = np.ones((2, 4, 4, 4), np.float32)


def labels(x):
    """A class for each vector of scores, or a single class for a vector."""
    return np.zeros(x.shape[:1] * (x.ndim > 1) + x.shape[2:], np.int64)


# Functions of a tensor and a dimension. Those of the first table reject each dimension of a tensor without dimensions;
# to those of the second table, it has the dimensions 0 and -1, as in PyTorch.
REJECT_NUMBERS = {
    "chunk": lambda x, d: kz.chunk(x, 2, d),
    "glu": lambda x, d: F.glu(x, d),
    "narrow": lambda x, d: kz.narrow(x, d, 0, 1),
    "repeat_interleave": lambda x, d: kz.repeat_interleave(x, 2, d),
    "roll": lambda x, d: kz.roll(x, 1, d),
    "select": lambda x, d: kz.select(x, d, 0),
    "size": lambda x, d: kz.Tensor.size(x, d),
    "split": lambda x, d: kz.split(x, 1, d),
    "split in sections": lambda x, d: kz.split(x, [1, 3], d),
    "tensordot": lambda x, d: kz.tensordot(x, x, ([d], [d])),
    "trapezoid": lambda x, d: kz.trapezoid(x, dim=d),
    "unbind": lambda x, d: kz.unbind(x, d),
    "unflatten": lambda x, d: kz.unflatten(x, d, [2, -1]),
}
ACCEPT_NUMBERS = {
    "flatten from": lambda x, d: kz.flatten(x, d),
    "flatten to": lambda x, d: kz.flatten(x, 0, d),
    "Flatten": lambda x, d: nn.Flatten(d)(x),
    "flip": lambda x, d: kz.flip(x, [d]),
    "gather": lambda x, d: kz.gather(x, d, np.zeros(x.shape, np.int64)),
    "index_add": lambda x, d: kz.index_add(x, d, np.arange(x.shape[0] if x.shape else 1), x),
    "index_copy_": lambda x, d: x.clone().index_copy_(d, np.arange(x.shape[0] if x.shape else 1), x),
    "index_fill_": lambda x, d: x.clone().index_fill_(d, INDEX, 1.0),
    "index_select": lambda x, d: kz.index_select(x, d, INDEX),
    "movedim from": lambda x, d: kz.movedim(x, d, 0),
    "movedim to": lambda x, d: kz.movedim(x, 0, d),
    "prod": lambda x, d: kz.prod(x, d),
    "scatter_add": lambda x, d: kz.scatter_add(x, d, np.zeros(x.shape, np.int64), x),
    "squeeze": lambda x, d: kz.squeeze(x, d),
    "swapaxes": lambda x, d: kz.swapaxes(x, d, 0),
}
# For each function, the numbers of dimensions that it accepts, and the call.
RANKS = {
    "AdaptiveAvgPool1d": ({2, 3}, lambda x: nn.AdaptiveAvgPool1d(2)(x)),
    "AdaptiveAvgPool2d": ({3, 4}, lambda x: nn.AdaptiveAvgPool2d(2)(x)),
    "AvgPool1d": ({2, 3}, lambda x: nn.AvgPool1d(2)(x)),
    "AvgPool2d": ({3, 4}, lambda x: nn.AvgPool2d(2)(x)),
    "BatchNorm2d": ({2, 3, 4, 5}, lambda x: nn.BatchNorm2d(4)(x)),
    "Bilinear": ({1, 2, 3, 4, 5}, lambda x: nn.Bilinear(*(x.shape or (4,))[-1:] * 2, 2)(x, x)),
    "Bilinear of a matrix": ({2}, lambda x: nn.Bilinear(4, 4, 2)(MATRIX, x)),
    "Dropout2d": ({2, 3, 4, 5}, lambda x: nn.Dropout2d()(x)),
    "GLU": ({1, 2, 3, 4, 5}, lambda x: nn.GLU()(x)),
    "GroupNorm": ({2, 3, 4, 5}, lambda x: nn.GroupNorm(2, 4)(x)),
    "InstanceNorm1d": ({2, 3, 4, 5}, lambda x: nn.InstanceNorm1d(4)(x)),
    "InstanceNorm2d": ({3, 4, 5}, lambda x: nn.InstanceNorm2d(4)(x)),
    "MaxPool1d": ({2, 3}, lambda x: nn.MaxPool1d(2)(x)),
    "MaxPool2d": ({3, 4}, lambda x: nn.MaxPool2d(2)(x)),
    "MultiHeadAttention": ({3}, lambda x: nn.MultiHeadAttention(4, 2)(x)),
    "Transformer": ({2, 3}, lambda x: nn.Transformer(4, 2, 1, 1, 8)(x, x)),
    "Upsample": ({3, 4, 5}, lambda x: nn.Upsample(scale_factor=2)(x)),
    "adaptive_avg_pool2d": ({3, 4}, lambda x: F.adaptive_avg_pool2d(x, (2, None))),
    "addmm": ({0, 1, 2}, lambda x: kz.addmm(x, MATRIX, MATRIX)),
    "addmv": ({0, 1}, lambda x: kz.addmv(x, MATRIX, VECTOR)),
    "avg_pool2d": ({3, 4}, lambda x: F.avg_pool2d(x, (2, 1))),
    "batch_norm": ({2, 3, 4, 5}, lambda x: F.batch_norm(x, VECTOR, VECTOR)),
    "batch_norm bias": ({1}, lambda x: F.batch_norm(IMAGES, VECTOR, VECTOR, VECTOR, x)),
    "batch_norm running_mean": ({1}, lambda x: F.batch_norm(IMAGES, x, VECTOR)),
    "batch_norm running_var": ({1}, lambda x: F.batch_norm(IMAGES, VECTOR, x, training=True)),
    "batch_norm weight": ({1}, lambda x: F.batch_norm(IMAGES, VECTOR, VECTOR, x)),
    "conv1d weight, grouped": ({3}, lambda x: F.conv1d(np.ones((1, 8, 4), np.float32), x, groups=2)),
    "conv1d weight, same": ({3}, lambda x: F.conv1d(LINES, x, padding="same")),
    "conv2d weight, same": ({4}, lambda x: F.conv2d(IMAGES, x, padding="same")),
    "conv_transpose1d": ({2, 3}, lambda x: F.conv_transpose1d(x, LINES)),
    "conv_transpose2d bias": ({1}, lambda x: F.conv_transpose2d(IMAGES, np.ones((4, 4, 2, 2), np.float32), x)),
    "cosine_embedding_loss": ({1, 2, 3, 4, 5}, lambda x: F.cosine_embedding_loss(x, x, 1.0)),
    "cosine_embedding_loss target": ({0, 1}, lambda x: F.cosine_embedding_loss(MATRIX, MATRIX, x)),
    "cov": ({0, 1, 2}, lambda x: kz.cov(x)),
    "cross_entropy": ({1, 2, 3, 4, 5}, lambda x: F.cross_entropy(x, x)),
    "cross_entropy weight": ({1}, lambda x: F.cross_entropy(MATRIX, LABELS, x)),
    "cross_entropy weight, probabilities": ({1}, lambda x: F.cross_entropy(MATRIX, MATRIX, x)),
    "diag": ({1, 2}, lambda x: kz.diag(x)),
    "diag_embed": ({1, 2, 3, 4, 5}, lambda x: kz.diag_embed(x)),
    "diagonal": ({2, 3, 4, 5}, lambda x: kz.diagonal(x)),
    "dropout2d": ({2, 3, 4, 5}, lambda x: F.dropout2d(x)),
    "embedding": ({2}, lambda x: F.embedding(INDEX, x)),
    "embedding, padding_idx": ({2}, lambda x: F.embedding(INDEX, x, 0)),
    "expand": ({2, 3, 4, 5}, lambda x: x.expand(*[-1] * max(2, x.ndim))),
    "fliplr": ({2, 3, 4, 5}, lambda x: kz.fliplr(x)),
    "flipud": ({1, 2, 3, 4, 5}, lambda x: kz.flipud(x)),
    "gather index": ({0, 1}, lambda x: kz.gather(np.float32(2), 0, x.long())),
    "group_norm": ({2, 3, 4, 5}, lambda x: F.group_norm(x, 2)),
    "index_add index": ({0, 1}, lambda x: kz.index_add(VECTOR, 0, x.long(), np.ones(x.numel(), np.float32))),
    "index_copy_ index": ({0, 1}, lambda x: kz.zeros(4).index_copy_(0, x.long(), np.ones(x.numel(), np.float32))),
    "index_copy_ tensor": ({2}, lambda x: kz.zeros(4, 4).index_copy_(0, LABELS, x)),
    "index_fill_ index": ({0, 1}, lambda x: kz.zeros(4).index_fill_(0, x.long(), 1.0)),
    "index_fill_ value": ({0}, lambda x: kz.zeros(4).index_fill_(0, INDEX, x)),
    "index_select index": ({0, 1}, lambda x: kz.index_select(VECTOR, 0, x.long())),
    "instance_norm": ({3, 4, 5}, lambda x: F.instance_norm(x)),
    "interpolate, area": ({3, 4, 5}, lambda x: F.interpolate(x, size=2, mode="area")),
    "interpolate, bicubic": ({4}, lambda x: F.interpolate(x, size=2, mode="bicubic")),
    "interpolate, bilinear": ({4}, lambda x: F.interpolate(x, size=2, mode="bilinear")),
    "interpolate, linear": ({3}, lambda x: F.interpolate(x, size=2, mode="linear")),
    "interpolate, nearest": ({3, 4, 5}, lambda x: F.interpolate(x, scale_factor=2)),
    "interpolate, trilinear": ({5}, lambda x: F.interpolate(x, size=2, mode="trilinear")),
    "margin_ranking_loss": ({0, 1}, lambda x: F.margin_ranking_loss(VECTOR, VECTOR, x)),
    "max_pool1d": ({2, 3}, lambda x: F.max_pool1d(x, 2)),
    "max_pool2d": ({3, 4}, lambda x: F.max_pool2d(x, 2)),
    "max_pool2d, return_indices": ({3, 4}, lambda x: F.max_pool2d(x, 2, return_indices=True)),
    "nll_loss": ({1, 2, 3, 4, 5}, lambda x: F.nll_loss(x, labels(x))),
    "nll_loss weight": ({1}, lambda x: F.nll_loss(MATRIX, LABELS, x)),
    "permute": ({2}, lambda x: kz.permute(x, [1, 0])),
    "permute, no dimensions": ({0}, lambda x: kz.permute(x, [])),
    "prelu": ({2, 3, 4, 5}, lambda x: F.prelu(x, VECTOR)),
    "prelu weight": ({0, 1}, lambda x: F.prelu(IMAGES, x)),
    "scatter_add index": ({0, 1}, lambda x: kz.scatter_add(np.float32(2), 0, x.long() * 0, x)),
    "trapezoid points": ({1, 2}, lambda x: kz.trapezoid(MATRIX, x)),
    "triplet_margin_loss": ({0, 2}, lambda x: F.triplet_margin_loss(MATRIX, x, MATRIX)),
    "tril": ({2, 3, 4, 5}, lambda x: kz.tril(x)),
    "tril_": ({2, 3, 4, 5}, lambda x: x.clone().tril_()),
    "triu": ({2, 3, 4, 5}, lambda x: kz.triu(x)),
}


def run(function, array, compiled):
    """Calls the function with a tensor, or in a compiled function with an argument."""
    if compiled:
        kz.compile(lambda x: (function(x), x)[1], mesh="data=1")(array).wait()
    else:
        function(kz.tensor(array))


def assert_refused(function, shape, compiled):
    with pytest.raises(kz.ShapeError) as caught:
        run(function, np.full(shape, 0.5, np.float32), compiled)
    message = str(caught.value)
    assert f"{list(shape)}" in message, message
    assert "\n  at test_ranks_of_arguments.py:" in message, message
    return message


@pytest.mark.parametrize("compiled", [False, True], ids=["outside", "compiled"])
@pytest.mark.parametrize("name", [*REJECT_NUMBERS, *ACCEPT_NUMBERS])
def test_a_dimension_that_does_not_exist_is_an_error(name, compiled):
    function = (REJECT_NUMBERS | ACCEPT_NUMBERS)[name]
    for shape in SHAPES:
        rank = len(shape)
        for dim in (-rank - 2, -rank - 1, rank, rank + 1):
            if not shape and dim in (0, -1) and name in ACCEPT_NUMBERS:
                run(lambda x: function(x, dim), np.float32(0.5), compiled)
            else:
                message = assert_refused(lambda x: function(x, dim), shape, compiled)
                assert message.startswith(f"dimension {dim} of f32{list(shape)} does not exist"), message
        if shape:
            run(lambda x: function(x, 0), np.ones(shape, np.float32), compiled)


@pytest.mark.parametrize("compiled", [False, True], ids=["outside", "compiled"])
@pytest.mark.parametrize("name", RANKS)
def test_a_wrong_number_of_dimensions_is_an_error(name, compiled):
    accepted, function = RANKS[name]
    for shape in SHAPES:
        if len(shape) not in accepted:
            assert_refused(function, shape, compiled)
            good = SHAPES[min(accepted)]
            run(function, np.full(good, 0.5, np.float32), compiled)
        else:
            run(function, np.full(shape, 0.5, np.float32), compiled)


LINE_WEIGHT = np.ones((4, 4, 2), np.float32)
MESSAGES = {
    "flip: the dimensions [0, 0] of f32[2, 3] must be different": lambda x: kz.flip(x, (0, -2)),
    "squeeze: the dimensions [1, 1] of f32[2, 3] must be different": lambda x: kz.squeeze(x, (1, -1)),
    "flatten: start_dim must not come after end_dim, got -1 and 0 for f32[2, 3]": lambda x: kz.flatten(x, -1, 0),
    "permute: expected 2 dimensions for f32[2, 3], got [1]": lambda x: x.permute(1),
    "roll: expected one shift for each dimension, got shifts [1, 2] and dimensions [0] for f32[2, 3]": lambda x: (
        kz.roll(x, (1, 2), 0)
    ),
    "roll: expected one shift for each dimension, got shifts [1, 2] and dimensions [] for f32[2, 3]": lambda x: kz.roll(
        x, (1, 2)
    ),
    "expand: a new dimension of f32[2, 3] must not have the size -1, got [-1, 2, 3]": lambda x: x.expand(-1, 2, 3),
    "tril: expected at least 2 dimensions, got f32[3]": lambda x: kz.tril(x[0]),
    "flipud: expected at least 1 dimension, got f32[]": lambda x: kz.flipud(x[0, 0]),
    "cov: expected at most 2 dimensions, got f32[1, 2, 3]": lambda x: kz.cov(x[None]),
    "max_pool2d: expected 3 or 4 dimensions, got f32[2, 3]": lambda x: F.max_pool2d(x, 2),
    "mm: expected 2 dimensions, got f32[3]": lambda x: kz.mm(x, x[0]),
    "interpolate with mode='bilinear': expected 4 dimensions, got f32[2, 3]": lambda x: F.interpolate(
        x, 2, mode="bilinear"
    ),
    "index_add: source must have the shape [2, 3], got f32[1, 3]": lambda x: kz.index_add(
        x, 0, np.array([0, 1]), x[:1]
    ),
    "index_add: source must have the shape [1, 3], got f32[1, 2]": lambda x: kz.index_add(x, 0, INDEX, x[:1, :2]),
    "index_copy_: tensor must have the shape [2, 3], got f32[1, 3]": lambda x: x.clone().index_copy_(0, [0, 1], x[:1]),
    "batch_norm: running_mean must have the shape [3], got f32[2]": lambda x: F.batch_norm(x, x[:, 0], x[0]),
    "batch_norm: bias must have the shape [3], got an array of the shape [1]": lambda x: F.batch_norm(
        x, x[0], x[0], x[0], np.ones(1)
    ),
    "prelu: the weight for f32[2, 3] must have the shape [1] or [3] (one for each channel), got f32[2]": lambda x: (
        F.prelu(x, x[:, 0])
    ),
    "prelu: the weight for f32[3] must have the shape [1], got f32[3]": lambda x: F.prelu(x[0], x[0]),
    "binary_cross_entropy: the target must have the shape [2, 3], got f32[2]": lambda x: F.binary_cross_entropy(
        x, x[:, 0]
    ),
    "binary_cross_entropy_with_logits: the target must have the shape [2, 1], got f32[2]": lambda x: (
        F.binary_cross_entropy_with_logits(x[:, :1], x[:, 0])
    ),
    "gaussian_nll_loss: the tensors must have the same number of dimensions, got f32[2, 3], f32[3]": lambda x: (
        F.gaussian_nll_loss(x, x, x[0])
    ),
    "nll_loss: weight must have the shape [3], got f32[2]": lambda x: F.nll_loss(x, np.array([0, 1]), x[:, 0]),
    "Bilinear: x1 and x2 must have the same sizes except the last, got f32[1, 3] and f32[2, 3]": lambda x: nn.Bilinear(
        3, 3, 2
    )(x[:1], x),
    "tensordot: dims must be a number or two lists of dimensions, got [[0]]": lambda x: kz.tensordot(x, x, [[0]]),
    "max_pool2d: kernel_size must be one number or 2 numbers, got (2, 2, 2)": lambda x: F.max_pool2d(IMAGES, (2, 2, 2)),
    "avg_pool2d: stride must be one number or 2 numbers, got (1, 1, 1)": lambda x: F.avg_pool2d(IMAGES, 2, (1, 1, 1)),
    "max_pool1d: padding must be one number, got (0, 0)": lambda x: F.max_pool1d(LINES, 2, padding=(0, 0)),
    "adaptive_avg_pool2d: output_size must be one number or 2 numbers, got (2,)": lambda x: F.adaptive_avg_pool2d(
        IMAGES, (2,)
    ),
    "interpolate: size must be one number or 2 numbers, got (2,)": lambda x: F.interpolate(IMAGES, (2,)),
    "interpolate: scale_factor must be one number or 2 numbers, got [2, 2, 2]": lambda x: F.interpolate(
        IMAGES, scale_factor=[2, 2, 2]
    ),
    "a convolution of [n, c, l]: stride, padding and dilation must be one number, got (1, 1)": lambda x: F.conv1d(
        LINES, LINE_WEIGHT, stride=(1, 1)
    ),
    "RNN: hx must have the shape [1, 2, 3], got f32[2, 3]": lambda x: nn.RNN(4, 3)(kz.ones(5, 2, 4), x),
    "GRU: hx must have the shape [2, 2, 3], got f32[1, 2, 3]": lambda x: nn.GRU(4, 3, bidirectional=True)(
        kz.ones(5, 2, 4), x[None]
    ),
    "LSTM: hx must be 2 tensors, got 1": lambda x: nn.LSTM(4, 3)(kz.ones(5, 2, 4), (x[None],)),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_the_error_names_what_is_expected(message):
    with pytest.raises(kz.ShapeError) as caught:
        MESSAGES[message](kz.ones(2, 3))
    assert str(caught.value).startswith(message + "\n  at test_ranks_of_arguments.py:")


def test_an_empty_list_of_tensors_is_an_error():
    for function in (kz.cat, kz.stack, kz.hstack, kz.vstack):
        with pytest.raises(kz.UserError, match="at least one tensor is required"):
            function([])


def test_a_tensor_without_dimensions_counts_as_a_vector():
    x, one = kz.tensor(2.0), kz.ones(1)
    for value in (kz.flip(x, 0), kz.movedim(x, 0, -1), kz.permute(x, []), kz.index_select(x, 0, 0), kz.roll(x, 1)):
        assert value.shape == () and value.item() == 2
    assert kz.gather(x, 0, np.zeros(3, np.int64)).tolist() == [2, 2, 2]
    total = kz.scatter_add(x, 0, np.zeros(2, np.int64), kz.tensor([3.0, 4.0]))
    assert total.shape == () and total.item() == 9
    assert kz.scatter_add(x, 0, np.int64(0), kz.tensor(3.0)).item() == 5
    assert kz.index_add(x, 0, INDEX, one).item() == kz.index_add(x, -1, np.int64(0), kz.tensor(1.0)).item() == 3
    assert x.clone().index_copy_(0, 0, kz.tensor(5.0)).item() == x.clone().index_fill_(-1, INDEX, 5).item() == 5
    assert kz.tensordot(x, x, 0).item() == 4 and np.isnan(kz.cov(x).item())
    assert F.kl_div(x, x, reduction="batchmean").item() == F.kl_div(x, x).item()


def test_a_single_index_counts_as_a_vector():
    x = kz.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert kz.index_select(x, 1, 2).tolist() == [[2], [5]]
    assert x.clone().index_copy_(0, 1, kz.zeros(1, 3)).tolist() == [[0, 1, 2], [0, 0, 0]]
    assert x.clone().index_fill_(1, 0, kz.tensor(7)).tolist() == [[7, 1, 2], [7, 4, 5]]


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_points_of_trapezoid_are_along_its_dimension(dim):
    y = np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32)
    for x in (y[1], y + 1, y[:1] if dim % 2 else y[:, :1]):
        np.testing.assert_allclose(
            kz.trapezoid(y, x, dim=dim).numpy(), np.trapezoid(y, x if x.shape != (1, 4) else x, axis=dim), 1e-5
        )


def test_instance_norm_of_a_line_without_a_batch_is_that_of_a_batch_of_one():
    x = np.random.default_rng(3).standard_normal((4, 5)).astype(np.float32)
    norm = nn.InstanceNorm1d(4)
    np.testing.assert_array_equal(norm(x).numpy(), norm(x[None])[0].numpy())
    assert abs(norm(x).numpy().mean(1)).max() < 1e-6


def test_a_failed_call_of_batch_norm_is_not_counted():
    norm = nn.BatchNorm1d(4)
    with pytest.raises(kz.ShapeError, match=r"^BatchNorm1d: expected at least 2 dimensions, got f32\[4\]"):
        norm(VECTOR)
    norm(MATRIX)
    assert norm.num_batches_tracked.item() == 1
