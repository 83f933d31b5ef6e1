"""Functions that are written in Python take tensors, arrays and numbers as those of C++ do; the error of another value
names the function and the argument."""

import builtins

import numpy as np
import pytest

import karez as kz
from karez import F, nn


def ones(*shape):
    return np.ones(shape, np.float32)


X, SQUARE, VECTOR = ones(2, 3), ones(3, 3), ones(3)
ROWS, SIGNALS, IMAGES = ones(4, 6), ones(2, 4, 6), ones(2, 4, 6, 6)
PLACES, INDEX = np.array([[0, 1, 0], [1, 0, 1]]), np.array([0, 1])
# For each function: the arguments of a correct call, in which arrays stand for tensors.
CALLS = {
    kz.argmax: {"input": X},
    kz.argmin: {"input": X},
    kz.argsort: {"input": X},
    kz.bernoulli: {"input": X},
    kz.chunk: {"input": X, "chunks": 2},
    kz.cov: {"input": X},
    kz.diag: {"input": VECTOR},
    kz.diag_embed: {"input": X},
    kz.diagonal: {"input": X},
    kz.empty_like: {"input": X},
    kz.flatten: {"input": X},
    kz.flip: {"input": X, "dims": [0]},
    kz.fliplr: {"input": X},
    kz.flipud: {"input": X},
    kz.full_like: {"input": X, "fill_value": 1},
    kz.gather: {"input": X, "dim": 0, "index": PLACES},
    kz.index_add: {"input": X, "dim": 0, "index": INDEX, "source": X},
    kz.index_select: {"input": X, "dim": 0, "index": INDEX},
    kz.is_floating_point: {"input": X},
    kz.log_softmax: {"input": X},
    kz.masked_fill: {"input": X, "mask": X > 0, "value": 2.0},
    kz.matmul: {"input": X, "other": SQUARE},
    kz.max: {"input": X, "dim": 0},
    kz.min: {"input": X, "dim": 0},
    kz.mm: {"input": X, "mat2": SQUARE},
    kz.movedim: {"input": X, "source": 0, "destination": 1},
    kz.narrow: {"input": X, "dim": 0, "start": 0, "length": 1},
    kz.ones_like: {"input": X},
    kz.permute: {"input": X, "dims": [1, 0]},
    kz.rand_like: {"input": X},
    kz.randn_like: {"input": X},
    kz.repeat_interleave: {"input": X, "repeats": 2},
    kz.scatter_add: {"input": X, "dim": 0, "index": PLACES, "src": X},
    kz.searchsorted: {"sorted_sequence": VECTOR, "input": X, "sorter": np.array([0, 1, 2])},
    kz.select: {"input": X, "dim": 0, "index": 0},
    kz.softmax: {"input": X},
    kz.sort: {"input": X},
    kz.split: {"tensor": X, "split_size_or_sections": 1},
    kz.squeeze: {"input": X},
    kz.std: {"input": X},
    kz.std_mean: {"input": X},
    kz.swapaxes: {"input": X, "dim0": 0, "dim1": 1},
    kz.t: {"input": X},
    kz.take_along_dim: {"input": X, "indices": INDEX},
    kz.tensordot: {"a": X, "b": SQUARE, "dims": 1},
    kz.tile: {"input": X, "dims": [2, 2]},
    kz.topk: {"input": X, "k": 1},
    kz.transpose: {"input": X, "axes": [1, 0]},
    kz.trapezoid: {"y": X, "x": X},
    kz.tril: {"input": X},
    kz.triu: {"input": X},
    kz.unbind: {"input": X},
    kz.unflatten: {"input": ROWS, "dim": 1, "sizes": [2, 3]},
    kz.unsqueeze: {"input": X, "dim": 0},
    kz.var: {"input": X},
    kz.var_mean: {"input": X},
    kz.zeros_like: {"input": X},
    F.adaptive_avg_pool1d: {"input": SIGNALS, "output_size": 2},
    F.adaptive_avg_pool2d: {"input": IMAGES, "output_size": 2},
    F.batch_norm: {"input": IMAGES, "running_mean": ones(4), "running_var": ones(4)},
    F.conv1d: {"input": SIGNALS, "weight": ones(3, 4, 3), "padding": "same"},
    F.conv2d: {"input": IMAGES, "weight": ones(3, 4, 3, 3), "padding": "same"},
    F.conv_transpose1d: {"input": SIGNALS, "weight": ones(4, 3, 3)},
    F.conv_transpose2d: {"input": IMAGES, "weight": ones(4, 3, 3, 3)},
    F.dropout: {"input": X, "p": 1.0},
    F.gaussian_nll_loss: {"input": X, "target": X, "var": X},
    F.glu: {"input": ROWS},
    F.group_norm: {"input": IMAGES, "num_groups": 2},
    F.instance_norm: {"input": IMAGES},
    F.interpolate: {"input": IMAGES, "size": [3, 3]},
    F.layer_norm: {"input": X, "normalized_shape": [3], "weight": VECTOR, "bias": VECTOR},
    F.pad: {"input": X, "pad": [1, 1]},
    F.prelu: {"input": X, "weight": VECTOR},
    F.rms_norm: {"input": X, "normalized_shape": [3], "weight": VECTOR},
    F.scaled_dot_product_attention: {"query": SIGNALS, "key": SIGNALS, "value": SIGNALS},
}
OPTIONAL = {(kz.searchsorted, "sorter"), (kz.trapezoid, "x"), (F.layer_norm, "weight"), (F.layer_norm, "bias")}
OPTIONAL |= {(F.rms_norm, "weight"), (F.batch_norm, "running_mean"), (F.batch_norm, "running_var")}
# Functions of which some operands may be lists of numbers.
TAKE_LISTS = {kz.matmul, kz.mm}
TAKE_LISTS |= {(kz.gather, "index"), (kz.index_select, "index"), (kz.searchsorted, "input")}
TAKE_LISTS |= {(kz.searchsorted, "sorted_sequence"), (F.gaussian_nll_loss, "var")}
UNNAMED = {(F.gaussian_nll_loss, "target")}  # the operand of an operator, whose error is that of Python
OPERANDS = [
    (function, name)
    for function, arguments in CALLS.items()
    for name, value in arguments.items()
    if isinstance(value, np.ndarray) and (function, name) not in UNNAMED
]
EXPECTED = "a tensor, an array or a number"
WRONG = {"object": object(), "'text'": "text", "dict": {}, "None": None, "[1.0, 2.0]": [1.0, 2.0]}


def tensors(arguments):
    return {name: kz.tensor(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}


def identity(value):
    return f"{value[0].__name__}-{value[1]}" if isinstance(value, tuple) else value.__name__


@pytest.mark.parametrize("operand", OPERANDS, ids=identity)
def test_an_error_names_the_function_and_the_argument(operand):
    function, name = operand
    arguments = tensors(CALLS[function])
    function(**arguments)
    for text, wrong in WRONG.items():
        if wrong is None and operand in OPTIONAL or isinstance(wrong, list) and TAKE_LISTS & {operand, function}:
            continue
        with pytest.raises(builtins.TypeError) as error:
            function(**{**arguments, name: wrong})
        assert f"{function.__name__}(): argument '{name}' must be {EXPECTED}" in str(error.value)
        assert str(error.value).endswith(f", got {text}")


@pytest.mark.parametrize("function", CALLS, ids=identity)
def test_arrays_are_tensors(function):
    def results(**arguments):
        result = function(**arguments)
        items = result if isinstance(result, (list, tuple)) else [result]
        return [item.numpy() if isinstance(item, kz.Tensor) else item for item in items]

    is_random = function in (kz.bernoulli, kz.rand_like, kz.randn_like)
    arguments = tensors(CALLS[function])
    expected = results(**arguments)
    for name, value in CALLS[function].items():
        for result, other in zip(results(**{**arguments, name: value}), expected, strict=True):
            assert is_random or np.array_equal(result, other)


def test_numbers_are_tensors_without_dimensions():
    assert kz.flatten(3.0).tolist() == [3] and kz.unsqueeze(3, 0).tolist() == [3]
    assert kz.squeeze(True).tolist() is True and kz.zeros_like(2).dtype is kz.int64
    assert kz.masked_fill(3.0, True, 2).item() == 2
    assert kz.stack([1, np.int64(2)]).tolist() == [1, 2] and kz.cat([kz.tensor(X), ones(1, 3)]).shape == (3, 3)


@pytest.mark.parametrize("function", [kz.cat, kz.stack, kz.hstack, kz.vstack])
def test_errors_of_sequences_name_the_item(function):
    name = function.__name__
    for text, wrong in WRONG.items():
        with pytest.raises(kz.TypeError) as error:
            function([kz.tensor(X), wrong])
        assert str(error.value) == f"{name}(): item 1 of argument 'tensors' must be {EXPECTED}, got {text}"
    for wrong in (object(), None):
        with pytest.raises(
            kz.TypeError, match=rf"{name}\(\): argument 'tensors' must be a sequence of tensors, arrays"
        ):
            function(wrong)

    with pytest.raises(kz.TypeError, match=rf"{name}\(\): item 1 of argument 'tensors' must be {EXPECTED}, got None"):
        function(item for item in (1, None))

    def items():
        yield kz.nothing

    with pytest.raises(AttributeError, match="nothing"):  # an error of the program
        function(items())


MODULES = {
    "Conv2d": (lambda: nn.Conv2d(4, 3, 3), [IMAGES]),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 3, 3), [SIGNALS]),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), [IMAGES]),
    "LayerNorm": (lambda: nn.LayerNorm(3, elementwise_affine=False), [X]),
    "Bilinear": (lambda: nn.Bilinear(3, 3, 2), [X, X]),
    "Flatten": (lambda: nn.Sequential(nn.Flatten()), [IMAGES]),
    "GLU": (lambda: nn.GLU(), [ROWS]),
    "Softmax": (lambda: nn.Softmax(), [X]),
    "Upsample": (lambda: nn.Upsample(scale_factor=2), [IMAGES]),
    "ZeroPad2d": (lambda: nn.ZeroPad2d(1), [IMAGES]),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(6, 2), [SIGNALS, SIGNALS, SIGNALS]),
    "Transformer": (lambda: nn.Transformer(6, 2, 1, 1, 8), [SIGNALS, SIGNALS]),
}


@pytest.mark.parametrize("name", MODULES)
def test_errors_of_modules_name_the_argument(name):
    create, inputs = MODULES[name]
    module = create()
    module(*inputs)
    for position in range(len(inputs)):
        for wrong in (object(), "text", [1.0]):
            with pytest.raises(
                kz.TypeError,
                match=rf"^(forward|glu|interpolate|pad|softmax)\(\): argument '\w+' must be {EXPECTED}, got ",
            ):
                module(*(wrong if i == position else value for i, value in enumerate(inputs)))


def loss_and_weight():
    weight = nn.Parameter(VECTOR, name="weight")
    return (weight * 2).sum(), weight


OTHERS = {
    f"repeat(): argument 'input' must be {EXPECTED}": lambda wrong: kz.repeat(wrong, 2, 2),
    f"type_as(): argument 'other' must be {EXPECTED}": lambda wrong: kz.tensor(X).type_as(wrong),
    f"scatter_add(): argument 'src' must be {EXPECTED}": lambda wrong: kz.tensor(X).scatter_add_(0, PLACES, wrong),
    f"square(): argument 'input' must be {EXPECTED}": kz.square,
    "grad(): argument 'loss' must be a tensor": lambda wrong: kz.grad(wrong, [loss_and_weight()[1]]),
    f"backward(): argument 'gradient' must be {EXPECTED}": lambda wrong: loss_and_weight()[0].backward(wrong),
    "grad(): item 0 of argument 'grad_outputs' must be a tensor or None": lambda wrong: kz.autograd.grad(
        *loss_and_weight(), [wrong]
    ),
    "clip_grad_norm_(): item 0 of argument 'parameters' must be a parameter": lambda wrong: nn.utils.clip_grad_norm_(
        [wrong], 1.0
    ),
}


@pytest.mark.parametrize("message", OTHERS)
def test_errors_of_other_functions_name_the_argument(message):
    for text in ("object", "'text'", "dict"):
        with pytest.raises(kz.TypeError) as error:
            OTHERS[message](WRONG[text])
        assert str(error.value) == f"{message}, got {text}"


LISTS_OF_TENSORS = {
    "grad": lambda: kz.grad(loss_and_weight()[0], [None]),
    "grad in a compiled function": kz.compile(lambda: kz.grad(loss_and_weight()[0], [None])),
    "autograd.grad": lambda: kz.autograd.grad(loss_and_weight()[0], [None]),
    "backward": lambda: loss_and_weight()[0].backward(inputs=[None]),
    "clip_by_global_norm": lambda: kz.optim.clip_by_global_norm([None], 1.0),
    "SGD": lambda: kz.optim.SGD([None], 0.1),
    "EMA": lambda: kz.optim.EMA([None], 0.5),
    "cat": lambda: kz.cat([None]),
}


@pytest.mark.parametrize("name", LISTS_OF_TENSORS)
def test_none_is_no_tensor_of_a_list(name):
    with pytest.raises(kz.TypeError, match="None"):
        LISTS_OF_TENSORS[name]()


def test_inputs_of_backward_are_a_tensor_or_several():
    for inputs in (lambda weight: weight, lambda weight: [weight], lambda weight: (w for w in [weight])):
        loss, weight = loss_and_weight()
        loss.backward(inputs=inputs(weight))
        assert weight.grad.tolist() == [2.0] * 3
    loss, weight = loss_and_weight()
    with pytest.raises(kz.TypeError, match=r"backward\(\): item 0 of argument 'inputs' must be a tensor, got None"):
        loss.backward(inputs=[None])
    with pytest.raises(kz.UserError, match="backward: inputs= is empty"):
        loss.backward(inputs=[])
    loss.backward(inputs=weight)
    assert weight.grad.tolist() == [2.0] * 3


def test_operands_in_a_compiled_function_are_the_same():
    @kz.compile
    def program(x):
        with pytest.raises(kz.TypeError, match=rf"flatten\(\): argument 'input' must be {EXPECTED}, got object"):
            kz.flatten(object())
        return x + kz.unsqueeze(X, 0) + kz.squeeze(1.0)

    assert program(ones(1, 2, 3)).tolist() == [[[3.0] * 3] * 2]


def test_an_index_of_scatter_add_has_the_dimensions_of_the_input():
    with pytest.raises(kz.ShapeError, match=r"index and src must have 2 dimensions as the input, got i64\[\] and f32"):
        kz.scatter_add(X, 0, 0, X)
