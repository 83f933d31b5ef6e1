"""Tests the API reference: every public name in Python and every public class in C++ is documented."""

# builds: karez_python karez_stubs
import inspect
import os
import pathlib
import re
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / os.environ.get("KAREZ_BUILD", "build")
sys.path.insert(0, str(BUILD / "python"))
import karez as kz  # noqa: E402

MODULES = {
    "karez": kz,
    "karez.nn": kz.nn,
    "karez.nn.functional": kz.F,
    "karez.optim": kz.optim,
    "karez.data": kz.data,
    "karez.data.images": kz.data.images,
    "karez.data.audio": kz.data.audio,
    "karez.data.text": kz.data.text,
    "karez.debug": kz.debug,
}


def names():
    """(name, object) of all public functions and classes, and of the attributes that classes define."""
    for place, module in MODULES.items():
        for name in dir(module):
            thing = getattr(module, name)
            if (
                name.startswith("_")
                or isinstance(thing, types.ModuleType)
                or not callable(thing)
                or not str(getattr(thing, "__module__", "")).startswith("karez")
            ):
                continue
            yield f"{place}.{name}", thing
            if isinstance(thing, type) and place == "karez":
                for member_name, value in vars(thing).items():
                    if not member_name.startswith("_") and (callable(value) or isinstance(value, property)):
                        yield f"{place}.{name}.{member_name}", value


def test_every_public_name_of_python_has_a_docstring():
    found = dict(names())
    assert len(found) > 400
    undocumented = [
        name
        for name, thing in found.items()
        if not (inspect.getdoc(thing) or "").strip() or isinstance(thing, type) and not (thing.__doc__ or "").strip()
    ]
    assert undocumented == []


def public_headers():
    return sorted((ROOT / "karez/api").glob("*.h"))


def test_every_public_class_of_the_api_has_a_comment():
    undocumented = []
    for header in public_headers():
        if header.name.startswith("test_"):
            continue
        lines = header.read_text().split("\n")
        for at, line in enumerate(lines):
            declared = re.match(r"(?:class|struct|enum class) (\w+)[^;]*{", line)
            above = lines[at - 1] if at and not lines[at - 1].startswith("template") else lines[at - 2]
            if declared and not above.startswith("//") and "//" not in line:
                undocumented.append(f"{header.name}:{at + 1} {declared[1]}")
    assert undocumented == []


@pytest.mark.skipif(
    not os.environ.get("KAREZ_ALL"), reason="needs pdoc and Doxygen: ./dev deps --docs, ./dev test --long"
)
def test_the_reference_is_generated_without_a_warning(tmp_path):
    generated = subprocess.run([ROOT / "dev", "docs", tmp_path], capture_output=True, text=True, timeout=1500)
    assert generated.returncode == 0, generated.stdout + generated.stderr  # a warning makes ./dev docs fail
    python, cpp = (
        (tmp_path / "python" / "karez.html").read_text(),
        "".join(p.read_text() for p in (tmp_path / "cpp").rglob("*.html")),
    )
    assert (
        "value_and_grad" in python
        and (tmp_path / "python" / "karez" / "nn.html").exists()
        and not (tmp_path / "python" / "karez" / "tree_util.html").exists()
    )
    for word in ("FunctionOptions", "value_and_grad", "DeviceMesh"):
        assert word in cpp
