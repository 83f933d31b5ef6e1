"""Tests that mypy --strict accepts the package and its examples, and that the stub of the module is complete."""

import os
import pathlib
import subprocess
import sys
import types
import typing

import pytest

import karez as kz

pytestmark = pytest.mark.xdist_group("types")  # one worker makes the expensive fixtures

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(kz.__path__[0])


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    pytest.importorskip("mypy")
    return tmp_path_factory.mktemp("mypy")


def mypy(*files, cache):
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--cache-dir",
        str(cache),
        *map(str, files),
    ]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=600, env=os.environ | {"MYPYPATH": str(PACKAGE.parent)}
    )


def test_examples_pass_mypy_strict(cache):
    done = mypy(*sorted((ROOT / "examples").glob("*.py")), cache=cache)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_passes_mypy_strict(cache):
    done = mypy("-p", "karez", cache=cache)
    assert done.returncode == 0, done.stdout + done.stderr


def public_callables():
    """The functions, classes and methods of the public modules, by name."""
    modules = [kz, kz.nn, kz.nn.functional, kz.nn.init, kz.nn.utils, kz.optim, kz.data, kz.debug, kz.errors]
    for module in modules:
        for name, value in vars(module).items():
            if name.startswith("_") or not str(getattr(value, "__module__", "")).startswith("karez"):
                continue
            if isinstance(value, (types.FunctionType, type)):
                yield f"{value.__module__}.{value.__qualname__}", value
            for one in vars(value).values() if isinstance(value, type) else ():
                one = one.fget if isinstance(one, property) else getattr(one, "__func__", one)
                if isinstance(one, types.FunctionType):
                    yield f"{one.__module__}.{one.__qualname__}", one


def test_type_hints_of_every_public_name_resolve():
    failed = {}
    for name, value in public_callables():
        try:
            typing.get_type_hints(value)
        except Exception as error:
            failed[name] = error
    assert not failed, failed


ANY_RESULTS = {  # functions whose result type the user's function or values determine
    "karez.compiled_function.Compiled.__call__",
    "karez.data.batches.Batches.at",
    "karez.dlpack.dlpack",
    "karez.function_gradients.jvp",
    "karez.nn.functional_call.functional_call",
    "karez.nn.module.Module.__call__",
    "karez.nn.module.Module.forward",
    "karez.nn.module.Module.get_submodule",
    "karez.nn.containers.Sequential.forward",
    "karez.object_collectives.broadcast_object",
    "karez.optim.Optimizer.lr",
    "karez.tensor.Tensor.tolist",
}


def test_public_functions_have_result_types():
    found = {
        name
        for name, value in public_callables()
        if isinstance(value, types.FunctionType)
        and not any(part.startswith("_") and part != "__call__" for part in name.split(".")[1:])
        and typing.get_type_hints(value).get("return") is typing.Any
    }
    assert found <= ANY_RESULTS, found - ANY_RESULTS


def test_mypy_finds_type_errors(cache, tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("""
import karez as kz
x: int = kz.ones(3).sum(dim=0)
kz.nn.functional.leaky_relu(kz.ones(3), negative="x")
kz.nn.Linear(3, "4")
kz.tensor([1.0]).flatten(begin=1)
kz.Mesh(data=2).no_such
kz.tensor([1.0]).topk("one")
""")
    output = mypy(wrong, cache=cache).stdout
    for number in range(3, 9):
        assert f"wrong.py:{number}: error" in output, output


def test_correct_programs_pass_mypy(cache, tmp_path):
    right = tmp_path / "right.py"
    right.write_text("""
import numpy as np
import karez as kz
x: kz.Tensor = kz.tensor([[1.0, 2.0]]).flatten(0, -1).topk(1, largest=True).values
n: int = x.size(0) + len(x) + int(x.sum()) + x.numel()
y = np.asarray(x.numpy()) + x.reshape(2, -1).float().item()
z: kz.Tensor = x[0:1, None] @ x * 2 + (x > 0).any(dim=0, keepdim=True) - kz.nn.functional.relu(x)
""")
    done = mypy(right, cache=cache)
    assert done.returncode == 0, done.stdout


def test_the_stub_has_every_function_and_method():
    text = (PACKAGE / "_core.pyi").read_text()
    methods = text[text.index("class Tensor:") :]
    methods = methods[: methods.index("\nclass ", 10)]
    missing = [
        name
        for name in dir(kz.Tensor)
        if not name.startswith("_") and f"def {name}(" not in methods and f"\n    {name}: " not in methods
    ]
    missing += [
        name
        for name, value in vars(kz._core).items()
        if type(value).__name__ == "nb_func" and not name.startswith("_") and f"def {name}(" not in text
    ]
    assert not missing and (PACKAGE / "py.typed").exists()
