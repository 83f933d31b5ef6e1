"""Compares vmap of every public function that has a stored sample (opinfo_cases) with a loop over the elements."""

import warnings

import numpy as np
import opinfo_cases
import pytest

import karez as kz

CASES, _ = opinfo_cases.stored()


def smallest_cases(dtype):
    """The smallest sample of each function."""
    found = {}
    for case in CASES:
        size = sum(value.size for value in case.inputs)
        if case.dtype == dtype and case.inputs and size > 0 and case.name not in opinfo_cases.OUTSIDE:
            old = found.get(case.name)
            if old is None or size < sum(value.size for value in old.inputs):
                found[case.name] = case
    return list(found.values())


def elements_of(case):
    """Two elements of a batch: the inputs of a sample, and the inputs with their elements in reverse order."""
    given = [
        kz.tensor(value).to(case.dtype)
        if case.dtype in opinfo_cases.HALVES and value.dtype == np.float32
        else kz.tensor(value)
        for value in case.inputs
    ]
    return given, [kz.flip(value, list(range(value.ndim))) if value.ndim else value for value in given]


def function_of(case):
    function = opinfo_cases.karez_function(case.name)

    def run(*values):
        keywords = {key: opinfo_cases.fill_slots(value, values) for key, value in case.keywords.items()}
        results = function(*opinfo_cases.fill_slots(case.args, values), **keywords)
        return tuple(results) if isinstance(results, (list, tuple)) else (results,)

    return run


def fault_of(case):
    """Why vmap of the function differs from a loop; None if it does not, "" if the function rejects an element."""
    function, (first, second) = function_of(case), elements_of(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = [function(*first), function(*second)]
            expected = [[opinfo_cases.read(item) for item in results] for results in expected]
            kz.compile(lambda *values: function(*values))(*first)
        except (kz.Error, TypeError, ValueError, IndexError, AttributeError):
            return ""
        try:
            got = kz.vmap(function)(*[kz.stack([a, b]) for a, b in zip(first, second)])
            got = [opinfo_cases.read(item) for item in got]
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    relative, absolute = opinfo_cases.KINDS.get(case.dtype, opinfo_cases.KINDS["float32"])
    for number, item in enumerate(got):
        for element in range(2):
            if item[element].shape != expected[element][number].shape or not np.allclose(
                item[element].astype(np.float64),
                expected[element][number].astype(np.float64),
                relative,
                absolute,
                equal_nan=True,
            ):
                return f"{item[element]} != {expected[element][number]}"
    return None


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16", "int32", "int64", "bool"])
def test_vmap_of_every_function_equals_a_loop(dtype):
    cases = smallest_cases(dtype)
    faults = {case.name: fault_of(case) for case in cases}
    wrong = {name: fault for name, fault in faults.items() if fault}
    assert not wrong, "\n".join(f"{name}: {fault[:300]}" for name, fault in wrong.items())
    rejected = {name for name, fault in faults.items() if fault == ""}
    assert len(rejected) <= 0.05 * len(cases), sorted(rejected)
