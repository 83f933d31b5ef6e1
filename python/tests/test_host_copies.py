"""Tests of the warning about results that are copied to the host and passed back, and of reads in a trace."""

import gc
import subprocess
import sys
import warnings

import numpy as np
import pytest

import karez as kz
from karez import data, host_copies

X = np.arange(6, dtype=np.float32).reshape(2, 3)
STEPS = 2 * host_copies.STEPS_BEFORE_WARNING


@pytest.fixture(autouse=True)
def forget_steps():
    host_copies._steps.clear()


def function():
    return kz.compile(lambda x: x + 1)


def warnings_of(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(warning.message) for warning in caught if "copied to the host" in str(warning.message)]


def test_a_result_that_is_passed_back_in_each_step_is_named_once():
    f, g = function(), kz.compile(lambda x: x * 2, name="second")

    def run():
        x = X
        for _ in range(STEPS):
            x = f(x).numpy()
            x = g(x).numpy()
        assert x.shape == X.shape

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2, messages
    line, file = run.__code__.co_firstlineno, "test_host_copies.py"
    read, call = f"{file}:{line + 3}", f"{file}:{line + 4}"
    assert messages[0].startswith(
        f"the result of {read} was copied to the host and passed back to 'second' at {call}, in 3 steps so far;"
    )
    assert messages[1].startswith(
        f"the result of {call} was copied to the host and passed back to '<lambda>' at {read}, in 3 steps so far;"
    )
    assert "Pass the tensor itself, or compute on the host in a stage of the data set" in messages[0]
    assert (caught[0].filename, caught[0].lineno, caught[0].category) == (__file__, line + 4, UserWarning)
    assert warnings_of(run) == [], "once for each pair of lines"


@pytest.mark.parametrize(
    "read",
    [
        lambda y: y.numpy(),
        lambda y: y.numpy()[:1],
        lambda y: y.numpy().T.reshape(3, 2),
        lambda y: y.half().numpy(),
        lambda y: (y + 1).numpy(),
        lambda y: y[:0].numpy(),
        lambda y: y.sum().numpy(),
    ],
)
def test_views_are_recognised(read):
    f = function()

    def run():
        y = f(X)
        for _ in range(STEPS):
            f({"x": read(y)}["x"])
            y = f(X)

    assert len(warnings_of(run)) == 1


def test_keywords_and_nested_arguments_are_recognised():
    f = kz.compile(lambda batch, *, scale: batch["x"][0] * scale)

    def run():
        y = f({"x": (X,)}, scale=1.0)
        for _ in range(STEPS):
            y = f({"x": (y.numpy(),)}, scale=2.0)

    assert len(warnings_of(run)) == 1


def test_a_method_is_recognised():
    class Model:
        @kz.compile
        def step(self, x):
            return x * 2

    model = Model()

    def run():
        y = model.step(X)
        for _ in range(STEPS):
            y = model.step(y.numpy())

    assert len(warnings_of(run)) == 1


def passes_tensors(f):
    y = f(X)
    for _ in range(STEPS):
        y = f(y)
    assert y.numpy().shape == X.shape


def reads_only(f):
    for _ in range(STEPS):
        assert f(X).numpy().mean() > 0


def computes_on_the_host(f):
    x = X
    for _ in range(STEPS):
        x = f(x).numpy() * 0.5


def prepares(f):
    x = f(X).numpy()
    for _ in range(STEPS):
        f(x)


def prepares_all_elements(f):
    rows = [f(X + i).numpy() for i in range(STEPS)]
    for _ in range(3):
        for row in rows:
            f(row)


def reads_batches(f):
    for _ in range(2):
        for x in data.from_arrays(np.stack([X] * STEPS)).batch(1):
            f(x.numpy())
        for x in data.from_arrays(np.stack([X] * STEPS)).batch(1).as_numpy():
            f(x)


def reads_host_tensors(f):
    for _ in range(STEPS):
        f(kz.tensor(X).numpy())


def passes_numbers(f):
    for _ in range(STEPS):
        f(float(f(X).sum()))
        f(f(X).sum().item())


@pytest.mark.parametrize(
    "program",
    [
        passes_tensors,
        reads_only,
        computes_on_the_host,
        prepares,
        prepares_all_elements,
        reads_batches,
        reads_host_tensors,
        passes_numbers,
    ],
)
def test_programs_without_a_warning(program):
    assert warnings_of(lambda: program(function())) == []


def test_a_step_needs_three_rounds():
    f = function()

    def run(steps):
        x = X
        for _ in range(steps):
            x = f(x).numpy()

    assert warnings_of(lambda: run(3)) == [], "two arrays were passed back"
    assert len(warnings_of(lambda: run(3))) == 1


def test_arrays_that_are_gone_are_forgotten():
    f = function()
    host_copies._latest.clear()
    kept = f(X).numpy()
    assert len(host_copies._latest) == 1
    for _ in range(5):
        f(X).numpy()
    gc.collect()
    assert len(host_copies._latest) == 1
    del kept
    gc.collect()
    assert host_copies._latest == {}


PROGRAM = """
import warnings
import numpy as np
import karez as kz
f = kz.compile(lambda x: x + 1)
{filter}
x = np.zeros(3, np.float32)
for _ in range(9):
    x = f(x).numpy()
print(x[0])
"""


@pytest.mark.parametrize(
    "options, text, shown",
    [
        ([], "", 1),
        ([], 'warnings.filterwarnings("ignore", message="the result of .* was copied to the host")', 0),
        (["-W", "ignore::UserWarning"], "", 0),
    ],
)
def test_filters_of_python_silence_it(options, text, shown):
    program = PROGRAM.replace("{filter}", text)
    done = subprocess.run([sys.executable, *options, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "9.0\n", done.stderr
    assert done.stderr.count("was copied to the host") == shown, done.stderr


def test_an_error_filter_stops_the_call_and_the_next_one_runs():
    f = function()
    x = X
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="copied to the host"):
            for _ in range(STEPS):
                x = f(x).numpy()
    assert np.array_equal(f(X).numpy(), X + 1)


@pytest.mark.parametrize(
    "what, read",
    [
        ("numpy", lambda x: x.numpy()),
        ("numpy", lambda x: np.asarray(x)),
        ("tolist", lambda x: x.tolist()),
        ("float", lambda x: float(x.sum())),
        ("int", lambda x: int(x.sum())),
        ("item", lambda x: x[0, 0].item()),
    ],
)
def test_a_read_in_a_compiled_function_says_what_to_do(what, read):
    f = kz.compile(lambda x: x * read(x))
    with pytest.raises(kz.errors.UserError) as caught:
        f(X)
    message = str(caught.value)
    assert message.startswith(f"{what}() of f32")
    assert "has no value before the function runs. Return it, and read the result of the call; " in message
    assert "; kz.debug.print prints it when the function runs (see 'numbers in a compiled function' in " in message
    assert "\n  at test_host_copies.py:" in message
    with pytest.raises(kz.errors.UserError):
        f(X)
    assert np.array_equal(function()(X).numpy(), X + 1)
