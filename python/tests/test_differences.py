"""Errors quote the rows of the table of differences from PyTorch, and each row about an error is quoted."""

import pathlib
import re

import numpy as np
import pytest

import karez as kz
from karez import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/from-pytorch.md").read_text()
X = np.ones((2, 3), np.float32)


def rows():
    """The rows of the table, by name."""
    table = PAGE[PAGE.index("| name | in Karez |") :].splitlines()[2:]
    out, name = {}, None
    for line in table:
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0]:
            name = cells[0]
            out[name] = ""
        out[name] += " " + cells[-1]
    return out


def quoted():
    files = [
        *(ROOT / "python/karez").rglob("*.py"),
        *(ROOT / "python/src").glob("*.cc"),
        *(ROOT / "karez/api").rglob("*.cc"),
    ]
    text = "\n".join(file.read_text() for file in files if file.name != "differences.py")
    text = re.sub(r'"\s*\n\s*"', "", text)  # joins the parts of C++ literals
    return set(re.findall(r"see_difference\([\"'](.*?)[\"']\)", text)) | set(
        re.findall(r"see '([^'\n]*)' in docs/from-pytorch.md", text)
    )


def test_errors_quote_rows_that_exist_and_each_error_row_is_quoted():
    named = {name.replace("`", ""): text for name, text in rows().items()}
    assert quoted() <= set(named), quoted() - set(named)
    errors = {name for name, text in named.items() if text.strip().startswith("Error")}
    assert errors == quoted(), errors ^ quoted()


def traced(f):
    return lambda: kz.compile(f)(X)


def write_constant():
    number = kz.tensor([2.0])
    kz.compile(lambda x: x * float(number))(X).numpy()
    number.add_(1)


def keep(x):
    kept.append(x)


kept: list = []
used, outside = nn.Linear(3, 1), kz.zeros(2, 3)
table = list(range(2000))

CASES = {
    "if on a tensor": traced(lambda x: x if x.sum() > 0 else -x),
    "numbers in a compiled function": traced(lambda x: x.sum().item()),
    "masks in a compiled function": traced(lambda x: x[x > 0]),
    "shapes that depend on values": traced(lambda x: x.nonzero()),
    "tensors from outside": traced(lambda x: x + outside),
    "writes in a compiled function": traced(lambda x: x.add_(1)),
    "constants of a program": write_constant,
    "traced tensors in other objects": traced(keep),
    "large containers": traced(lambda x: x * table[3]),
    "results of compiled functions": lambda: kz.compile(lambda x: x.sum())(X).backward(),
    "hooks in a loop": traced(lambda x: kz.scan(lambda c, r: (r.register_hook(print), r), x[0], x)),
    "backward in a loop": traced(lambda x: kz.vmap(lambda r: r.sum().backward())(x)),
    "dtype of parameters": lambda: (used(kz.tensor(X)).numpy(), used.to(kz.float64)),
    "pickle": lambda: __import__("pickle").dumps(kz.zeros(2)),
    "settings of an optimiser": lambda: setattr(kz.optim.SGD(used.parameters(), lr=1), "momentum", 0.9),
    "parameter groups": lambda: kz.optim.SGD([{"params": used.parameters()}], lr=1),
    "dtypes": lambda: kz.tensor(np.zeros(3, np.int8)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_of_a_row_quotes_it(name):
    with pytest.raises(Exception, match=re.escape(f"(see '{name}' in docs/from-pytorch.md)")):
        CASES[name]()


def test_each_error_row_has_a_case():
    assert set(CASES) == quoted()
