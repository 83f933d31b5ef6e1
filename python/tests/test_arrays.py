"""Functions and layers take NumPy arrays as well as tensors, with the same results."""

import inspect

import numpy as np
import pytest
from random_arrays import random_array
from test_attributes import TABLE, compute_outputs, make_layer, outputs_equal

import karez as kz
from karez import F

X, Y, Z = (np.abs(random_array(4, 6, seed=seed)) + 0.1 for seed in range(3))
SQUARE, OTHER, BATCH, MORE = (
    random_array(4, 4),
    random_array(4, 4, seed=1),
    random_array(2, 4, 4),
    random_array(2, 4, 4, seed=1),
)
ROW, COLUMN, IMAGE, LINE, CLASSES, WHOLE = (
    X[0],
    X[:, 0],
    random_array(2, 4, 6, 6),
    random_array(2, 4, 6),
    np.array([0, 5, 2, 2]),
    np.arange(24).reshape(4, 6) % 4,
)
FLAGS, UNIT, SIGNS = X > 0.5, X / 9, np.sign(random_array(4, 6))
SAMPLES = {  # operands; a function that is not listed takes one array for each parameter without a default
    "addbmm": (SQUARE, BATCH, MORE),
    "baddbmm": (BATCH, BATCH, MORE),
    "bmm": (BATCH, MORE),
    "addmm": (SQUARE, SQUARE, OTHER),
    "mm": (SQUARE, OTHER),
    "addmv": (COLUMN, SQUARE, COLUMN),
    "mv": (SQUARE, COLUMN),
    "addr": (SQUARE, COLUMN, COLUMN),
    "dot": (ROW, ROW),
    "outer": (ROW, COLUMN),
    "matmul": (SQUARE, OTHER),
    "tensordot": (SQUARE, OTHER, 1),
    "trace": (SQUARE,),
    "adaptive_avg_pool1d": (LINE, 3),
    "adaptive_avg_pool2d": (IMAGE, 3),
    "avg_pool1d": (LINE, 3),
    "avg_pool2d": (IMAGE, 3),
    "max_pool1d": (LINE, 3),
    "max_pool2d": (IMAGE, 3),
    "interpolate": (IMAGE, 4),
    "pad": (X, (1, 2)),
    "conv1d": (LINE, random_array(3, 4, 2)),
    "conv2d": (IMAGE, random_array(3, 4, 2, 2)),
    "conv_transpose1d": (LINE, random_array(4, 3, 2)),
    "conv_transpose2d": (IMAGE, random_array(4, 3, 2, 2)),
    "batch_norm": (IMAGE, np.zeros(4, np.float32), np.ones(4, np.float32)),
    "instance_norm": (IMAGE,),
    "group_norm": (IMAGE, 2),
    "layer_norm": (X, 6),
    "rms_norm": (X, 6),
    "normalize": (X,),
    "linear": (X, Y),
    "embedding": (WHOLE, SQUARE),
    "prelu": (random_array(4, 6), np.array([0.1], np.float32)),
    "scaled_dot_product_attention": (BATCH, MORE, BATCH),
    "rotary": (BATCH,),
    "dropout": (X, 0.0),
    "dropout2d": (IMAGE, 0.0),
    "glu": (X,),
    "threshold": (X, 0.5, 2.0),
    "cross_entropy": (X, CLASSES),
    "nll_loss": (X, CLASSES),
    "correct_count": (X, CLASSES),
    "binary_cross_entropy": (UNIT, UNIT),
    "binary_cross_entropy_with_logits": (X, UNIT),
    "cosine_embedding_loss": (X, Y, SIGNS[:, 0]),
    "gaussian_nll_loss": (X, Y, Z),
    "margin_ranking_loss": (X, Y, SIGNS),
    "triplet_margin_loss": (X, Y, Z),
    "hinge_embedding_loss": (X, SIGNS),
    "soft_margin_loss": (X, SIGNS),
    "cosine_similarity": (X, Y),
    "pairwise_distance": (X, Y),
    "addcdiv": (X, Y, Z),
    "addcmul": (X, Y, Z),
    "lerp": (X, Y, 0.3),
    "where": (FLAGS, X, Y),
    "masked_fill": (X, FLAGS, 2.0),
    "clip": (X, 0.2, Y),
    "clamp": (WHOLE, 1),
    "bitwise_and": (WHOLE, WHOLE),
    "bitwise_or": (WHOLE, WHOLE),
    "bitwise_xor": (WHOLE, WHOLE),
    "bitwise_not": (WHOLE,),
    "heaviside": (X, Y),
    "broadcast_to": (X, (2, 4, 6)),
    "cast": (X, kz.float64),
    "cat": ([X, Y],),
    "concat": ((X, Y), 1),
    "stack": ([X, Y],),
    "hstack": ([X, Y],),
    "vstack": ([X, Y],),
    "einsum": ("ij,kj->ik", X, Y),
    "chunk": (X, 2),
    "split": (X, 2),
    "cumsum": (X, 1),
    "flip": (X, 0),
    "gather": (X, 1, WHOLE),
    "take_along_dim": (X, WHOLE, 1),
    "bincount": (np.array([1, 3, 1]), np.array([0.5, 2.0, 1.0], np.float32)),
    "masked_select": (X, FLAGS),
    "masked_scatter": (X, FLAGS, Y),
    "searchsorted": (np.sort(X[0]), Y),
    "bucketize": (X, np.sort(Y[0])),
    "index_add": (X, 0, np.array([1, 1]), Y[:2]),
    "scatter_add": (X, 1, WHOLE, Y),
    "index_select": (X, 0, np.array([2, 1])),
    "movedim": (X, 0, 1),
    "narrow": (X, 1, 2, 3),
    "one_hot": (WHOLE, 4),
    "permute": (X, (1, 0)),
    "repeat": (X, 2, 1),
    "repeat_interleave": (X, 2),
    "reshape": (X, (6, 4)),
    "roll": (X, 1),
    "select": (X, 0, 1),
    "swapaxes": (X, 0, 1),
    "tile": (X, (2, 1)),
    "topk": (X, 2),
    "unbind": (X,),
    "unflatten": (X, 1, (2, 3)),
    "unsqueeze": (X, 1),
    "trapezoid": (X, Y),
    "full_like": (X, 2.0),
    "softmin": (X, 1),
    "max": (X, 1),
    "min": (X, 1),
    "dist": (X, Y),
    "isclose": (X, Y),
}
# These functions have no array operand, need keywords, take parameters, or work in compiled functions only.
NO_ARRAY_OPERAND = {"arange", "eye", "full", "ones", "zeros", "tracing", "update", "with_layout", "nonzero_static"}
FUNCTIONS = {
    name: getattr(module, name)
    for module in (
        kz.functions,
        kz.pointwise,
        kz.manipulation,
        kz.products,
        kz.reductions,
        kz.searching,
        kz.selection,
        kz.unique_values,
        F,
    )
    for name in module.__all__
}
FUNCTIONS = {
    name: value for name, value in FUNCTIONS.items() if not isinstance(value, type) and name not in NO_ARRAY_OPERAND
} | {"max": kz.max, "min": kz.min, "abs": kz.abs, "sum": kz.sum, "pow": kz.pow, "any": kz.any, "all": kz.all}


def sample(name):
    if name in SAMPLES:
        return SAMPLES[name]
    function = FUNCTIONS[name]
    if type(function).__name__ == "nb_func":
        return (X, Y) if "other" in function.__doc__.splitlines()[0] else (X,)
    needed = [value for value in inspect.signature(function).parameters.values() if value.default is value.empty]
    return (X, Y)[: len(needed)]


def tensors(value):
    if isinstance(value, (list, tuple)) and any(isinstance(item, np.ndarray) for item in value):
        return type(value)(map(tensors, value))
    return kz.tensor(value) if isinstance(value, np.ndarray) else value


def flat(output):
    return [item for part in output for item in flat(part)] if isinstance(output, (tuple, list)) else [output.numpy()]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_numpy_arrays(name):
    arguments = sample(name)
    got, want = FUNCTIONS[name](*arguments), FUNCTIONS[name](*tensors(arguments))
    assert all(isinstance(item, kz.Tensor) for item in (got if isinstance(got, (tuple, list)) else [got]))
    for actual, expected in zip(flat(got), flat(want)):
        np.testing.assert_array_equal(actual, expected)
        assert actual.dtype == expected.dtype


@pytest.mark.parametrize("name", TABLE)
def test_layers_take_numpy_arrays(name):
    inputs = TABLE[name][1]
    layer = make_layer(name).eval()
    tensors_by_id = {id(item): kz.tensor(item) for item in inputs}
    want = compute_outputs(layer, [tensors_by_id[id(item)] for item in inputs])
    assert outputs_equal(compute_outputs(layer, inputs), want)
