"""Tests of tools/plan_picture.py, which draws the picture in the README from the report on the pipeline shown there."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from code_blocks import ROOT, blocks_of

import karez as kz


def texts_of(picture: str) -> list:
    """Returns the texts in a picture, with # in place of numbers."""
    return [re.sub(r"[\d.]+", "#", element.text) for element in ElementTree.fromstring(picture).iter() if element.text]


def test_the_picture_of_the_readme_shows_the_streams_of_its_pipeline(tmp_path):
    names = {}
    (program,) = [block.body for block in blocks_of("README.md") if block.language == "python"]
    exec(program.split("mesh = ")[0], names)
    net = names["Net"]()
    opt = kz.optim.Adam(net.parameters(), lr=2e-3)

    @kz.compile(mesh="stage=2,data=2", placements={"conv": 0, "fc": 1}, microbatches=8)
    def step(x, y):
        loss = kz.F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    np = names["np"]
    step.compile(np.zeros((64, 1, 28, 28), np.float32), np.zeros(64, np.int64))
    report, picture = tmp_path / "plan.html", tmp_path / "plan.svg"
    step.plan.save(str(report))
    subprocess.run([sys.executable, ROOT / "tools/plan_picture.py", report, picture], check=True)
    picture_text, docs_text = picture.read_text(), (ROOT / "docs/plan_report.svg").read_text()
    assert texts_of(picture_text) == texts_of(docs_text)
    assert picture_text.count("<rect") > 100
