"""Every code block of the guides runs unchanged, in order, and prints the output shown below it."""

import pathlib
import re

import pytest
from pins import golden_in

import karez as kz

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
LINKS = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("guide", ["layouts.md", "from-pytorch.md"])
def test_every_block_runs_and_prints_the_output_below_it(guide, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / guide).read_text()
    blocks = re.findall(r"```(python|text)\n(.*?)```", text, re.S)
    assert len(blocks) >= 6 and "".join(f"```{kind}\n{body}```" for kind, body in blocks).count("```") == text.count(
        "```"
    )
    kz.init(devices=4)
    names, printed = {}, ""
    for kind, body in blocks:
        if kind == "python":
            exec(compile(body, guide, "exec"), names)
            printed = capsys.readouterr().out
        elif printed:
            assert golden_in(DOCS / guide, printed, body)
            printed = ""
        else:
            assert "──" in body or "devices" in body, "a drawing"


@pytest.mark.parametrize("guide", ["layouts.md", "from-pytorch.md", "python.md"])
def test_links_of_the_guides_have_targets(guide):
    found = LINKS.findall((DOCS / guide).read_text())
    assert found or guide == "layouts.md"
    assert [link for link in found if not (DOCS / link).exists()] == []


def test_the_errors_of_the_guide_to_layouts_occur():
    text = (DOCS / "layouts.md").read_text()
    names = {}
    for body in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(compile(body, "layouts.md", "exec"), names)
    with pytest.raises(kz.Error, match="is on mesh"):
        names["whole"](names["v"])
