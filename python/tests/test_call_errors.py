"""Calls with wrong arguments: the error is one sentence that names the argument, without names of C++."""

import builtins
import inspect

import numpy as np
import pytest
from karez.call_errors import misfit_error

import karez as kz
from karez import F, nn

X = kz.ones(2, 3)
OPERAND = "a tensor, an array or a number"
MESSAGES = {
    f"relu(): argument 'input' must be {OPERAND}, got object": lambda: kz.relu(object()),
    "relu() missing required argument 'input'": lambda: kz.relu(),
    "relu() takes 1 positional argument but 2 were given": lambda: kz.relu(X, X),
    "maximum() missing required arguments 'input' and 'other'": lambda: kz.maximum(),
    "maximum() got multiple values for argument 'input'": lambda: kz.maximum(X, X, input=X),
    "sum() got an unexpected keyword argument 'axis'": lambda: kz.sum(X, axis=0),
    "sum() takes from 1 to 3 positional arguments but 4 were given": lambda: kz.sum(X, 0, True, 1),
    "sum(): argument 'dim' must be an integer, a sequence of integers or None, got 'a'": lambda: X.sum("a"),
    "sum(): item 1 of argument 'dim' must be an integer, got 'a'": lambda: X.sum(dim=[0, "a"]),
    "sum(): argument 'keepdim' must be True or False, got 'yes'": lambda: X.sum(0, "yes"),
    f"sum(): argument 'dim' must be an integer, a sequence of integers or None, got {2**70}": lambda: kz.sum(X, 2**70),
    "cast(): argument 'dtype' must be a dtype such as kz.float32 or \"float32\", got 'foo'": lambda: kz.cast(X, "foo"),
    "cast(): argument 'dtype' must be a dtype such as kz.float32 or \"float32\", got the class object": lambda: kz.cast(
        X, object
    ),
    "topk(): argument 'k' must be an integer, got a tensor f32[2, 3]": lambda: kz.topk(X, X),
    "reshape(): item 0 of argument 'shape' must be an integer, got 'a'": lambda: X.reshape("a"),
    f"fmod(): argument 'other' must be {OPERAND}, got 'a'": lambda: kz.fmod(X, "a"),  # an item in C++
    f"true_divide(): argument 'other' must be {OPERAND}, got the function print": lambda: kz.true_divide(X, print),
    f"linear(): argument 'weight' must be {OPERAND}, got 'a'": lambda: F.linear(X, "a"),
    f"forward(): argument 'x' must be {OPERAND}, got 'a'": lambda: nn.Linear(3, 2)("a"),
    "zeros(): argument 'size' must be an integer, got 'a'": lambda: kz.zeros(2, "a"),
    "normal(): argument 'deviation' must be a number, got 'a'": lambda: nn.init.normal("a"),
    "SGD(): argument 'lr' must be a number, got 'a'": lambda: kz.optim.SGD([nn.Parameter(np.ones(2))], lr="a"),
    "Mesh(): argument 'text' must be a string, got object": lambda: kz.Mesh(object()),
    "Tensor() takes 0 positional arguments but 1 was given": lambda: kz.Tensor(3),
    "Tensor.wait() takes 1 positional argument but 2 were given": lambda: X.wait(3),
    "Tensor.wait(): argument 'self' must be a tensor, got 'a'": lambda: kz.Tensor.wait("a"),
    "Tensor.bool() takes 1 positional argument but 2 were given": lambda: X.bool(3),
    "Tensor.reshape() got an unexpected keyword argument 'foo'": lambda: X.reshape(foo=3),
    "Tensor.view() got an unexpected keyword argument 'foo'": lambda: X.view(foo=3),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_an_error_names_the_argument(message):
    with pytest.raises(builtins.TypeError) as error:
        MESSAGES[message]()
    assert str(error.value) == message


def test_an_error_is_one_of_karez_with_the_line_of_the_call():
    with pytest.raises(kz.TypeError) as error:
        kz.relu("a")
    assert error.value.where.startswith("test_call_errors.py:")
    with pytest.raises(kz.TypeError, match="Karez has no dtype int8; kz.int32 is the closest"):
        kz.cast(X, "int8")


def test_an_error_in_a_trace_is_the_same():
    with pytest.raises(kz.TypeError, match=r"sum\(\): item 0 of argument 'dim' must be an integer, got a tensor"):
        kz.compile(lambda x: kz.sum(x, x))(np.ones((2, 3), np.float32))


def test_a_tensor_may_be_a_sequence_of_tensors():
    def clipped(x):
        gradients, norm = kz.optim.clip_by_global_norm(x, 1.0)
        return gradients, norm

    for _ in range(3):
        gradients, norm = kz.compile(clipped)(np.full((4, 4), 2, np.float32))
        assert norm.item() == 8 and len(gradients) == 4
        np.testing.assert_allclose(gradients[3].numpy(), 0.25, rtol=1e-5)


def test_dimensions_are_numbers_or_sequences():
    x = kz.ones(2, 3)
    for dim in (0, np.int64(0), [0], (0,), np.array([0])):
        assert x.sum(dim).tolist() == [2, 2, 2]
    assert x.sum(None).item() == x.sum([]).item() == x.sum((0, 1)).item() == 6


class TwoForms:
    """A function with two signatures."""

    def __init__(self):
        self.__name__ = self.__qualname__ = "place"

    __nb_signature__ = (
        ("def place(x: karez._core.Tensor, row: int) -> None", None),
        ("def place(x: karez._core.Tensor, rows: collections.abc.Sequence[int], *, name: str = \\0) -> None", None, ()),
    )


def test_a_function_with_several_signatures_lists_them():
    def text(*arguments, **keywords):
        return str(misfit_error(TwoForms(), list(arguments), keywords))

    assert text("a", 1) == text("a", [1]) == "place(): argument 'x' must be a tensor, got 'a'"  # fits in none
    assert text(X, "b", name=3) == (
        "place(): the arguments (a tensor f32[2, 3], 'b', name=3) do not fit place(x, row) or place(x, rows, *, name)"
    )
    assert text("a") == "place(): the arguments ('a') do not fit place(x, row) or place(x, rows, *, name)"


def public():
    """All public functions and classes, with the names that errors may show."""
    modules = (kz, F, nn, nn.init, nn.utils, kz.autograd, kz.func, kz.optim, kz.random, kz.data, kz.data.images)
    skipped = {"init", "reset", "barrier", "Initialiser"}
    for module in modules:
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            is_ours = getattr(value, "__module__", "").startswith("karez")
            if callable(value) and is_ours and not name.startswith("_") and name not in skipped:
                yield f"{module.__name__}.{name}", value
    for name in dir(kz.Tensor):
        if not name.startswith("_") and callable(getattr(kz.Tensor, name)):
            yield f"Tensor.{name}", lambda *args, name=name, **keywords: getattr(kz.ones(2, 3), name)(*args, **keywords)


def wrong_calls():
    yield (), {}
    for count in (1, 2, 3):
        for place in range(count):
            for wrong in (object(), "a"):
                yield tuple(wrong if i == place else kz.ones(2, 3) for i in range(count)), {}
    yield (kz.ones(2, 3),), {"foo": 1}
    yield (), {"foo": 1}
    yield (kz.ones(2, 3),) * 30, {}


def test_no_message_shows_names_of_cpp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # kz.save("a") writes a file
    shown = "incompatible function arguments", "nanobind", "::", "_core", "Invoked with", "<lambda>", "<locals>"
    functions = dict(public())
    assert len(functions) > 500
    failures, found = 0, []
    for name, function in functions.items():
        for arguments, keywords in wrong_calls():
            try:
                function(*arguments, **keywords)
            except Exception as error:
                failures += 1
                if any(text in str(error) for text in shown) or "std:" in str(error):
                    found.append(f"{name}: {error}")
    assert not found and failures > 5000, found[:20]


def test_public_functions_have_names_in_their_signatures():
    for name, function in public():
        if hasattr(function, "__nb_signature__"):
            for text, *_ in function.__nb_signature__:
                assert "arg0" not in text, f"{name}: {inspect.cleandoc(text)}"
