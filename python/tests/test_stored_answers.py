"""Compares Karez with PyTorch's answers to samples of the OpInfo database, which opinfo_answers.xz stores: results and
gradients, in every dtype. The tests do not need PyTorch."""

import numpy as np
import opinfo_cases
import pytest
from opinfo_cases import DTYPES, Case, Slot
from pins import pinned

import karez as kz

CASES, FACTS = opinfo_cases.stored()
HOW_TO_STORE = "python python/tests/opinfo.py store, where ./dev deps --oracle has run"


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_and_gradients_equal_the_stored_answers(dtype, part):
    found = [opinfo_cases.compare(case) for case in [case for case in CASES if case.dtype == dtype][part::3]]
    faults = opinfo_cases.faults(found)
    assert not faults, "\n".join(map(str, faults[:10]))
    assert sum(item.what == "equal" for item in found) >= 0.5 * len(found)


def test_every_function_has_stored_answers_in_every_dtype():
    available = {(case.op, case.dtype) for case in CASES} | {(op, dtype) for op, dtype, _ in FACTS["empty"]}
    expected_pairs = {
        (op, dtype) for op, name, dtypes in FACTS["ops"] if opinfo_cases.karez_function(name) for dtype in dtypes
    }
    assert expected_pairs <= available, (
        f"no stored answers for {sorted(expected_pairs - available)[:10]}; run {HOW_TO_STORE}"
    )
    public = opinfo_cases.public_functions(set(FACTS["names"]))
    stored = {case.name for case in CASES}
    public -= set(kz.pointwise_functions.__all__) - stored  # tests/op_reference_test.py compares these ops with NumPy
    assert len(public) >= 150
    assert public <= stored, f"no stored answers for {sorted(public - stored)}; run {HOW_TO_STORE}"


def test_few_functions_lack_a_stored_answer_in_a_dtype_and_each_has_a_reason():
    assert all(why for _, _, why in FACTS["empty"])
    assert len(FACTS["empty"]) <= 0.05 * len(CASES)


def test_the_file_records_the_pytorch_version_and_the_counts():
    assert FACTS["torch"].startswith("2.")
    assert pinned(len(CASES), 4125)
    assert opinfo_cases.STORED.stat().st_size <= 1_500_000


def test_a_wrong_answer_is_detected():
    x = np.array([1.0, 4.0])
    case = Case(
        "sqrt",
        "sqrt",
        "float64",
        0,
        [Slot(0)],
        {},
        [x],
        [0],
        [np.sqrt(x)],
        ["float64"],
        [True],
        [opinfo_cases.weights_of((2,), "float64") / (2 * np.sqrt(x))],
    )
    assert opinfo_cases.compare(case).what == "equal"
    assert opinfo_cases.compare(case._replace(outputs=[np.sqrt(x) + 1e-6])).what == "wrong"
    assert opinfo_cases.compare(case._replace(grads=[case.grads[0] + 1e-6])).what == "wrong"
    assert opinfo_cases.compare(case._replace(dtypes=["float32"])).what == "wrong"


def test_arguments_are_restored_as_they_were_stored():
    value = [Slot(3), (1, [2.5, None]), float("inf"), slice(None, 2, None), ..., 1 - 2j, {"dim": (0, 1)}, True, "sum"]
    back = opinfo_cases.decode(opinfo_cases.encode(value))
    assert back[0].number == 3 and back[1:] == value[1:]
