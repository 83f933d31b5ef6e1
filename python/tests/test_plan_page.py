"""The HTML page of a plan: its structure, and its rendering in a headless browser."""

# builds: karez_command
import collections
import html
import html.parser
import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

import karez as kz
from karez import F, P, nn

EMPTY = {"meta", "br", "hr", "img", "input", "link"}


class Parsed(html.parser.HTMLParser):
    """All elements of a page with their attributes and text. A tag that is not closed in order is an error."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.stylesheet = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", **dict(attributes)}
        assert len(dict(attributes)) == len(attributes)
        self.elements.append(element)
        if tag not in EMPTY:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1]["tag"] == tag, (tag, self.getpos())
        self.open.pop()

    def handle_data(self, data):
        for element in self.open[-1:]:
            element["text"] += data

    def all(self, tag):
        return [element for element in self.elements if element["tag"] == tag]


class Mlp(nn.Module):
    def __init__(self):
        self.first, self.second = nn.Linear(20, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.second(F.relu(self.first(x)))


def trained(model, mesh, *shapes, **options):
    opt = kz.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, y):
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    step = kz.compile(step, mesh=mesh, **options)
    step.compile(*(np.zeros(shape, np.float32) for shape in shapes))
    return step


class Block(nn.Module):
    def __init__(self, width):
        self.norm, self.attention, self.norm2 = (
            nn.LayerNorm(width),
            nn.MultiHeadAttention(width, 4),
            nn.LayerNorm(width),
        )
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Deep(nn.Module):
    def __init__(self, width, blocks):
        self.blocks = [Block(width) for _ in range(blocks)]

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def mlp():
    return trained(Mlp(), "data=2", (64, 20), (64, 4))


def transformer():
    return trained(
        Deep(64, 4),
        "data=2,model=2",
        (8, 32, 64),
        (8, 32, 64),
        rules={"**.up.weight": P("model", None), "**.down.weight": P(None, "model")},
    )


def pipeline():
    return trained(
        Deep(32, 2), "stage=2", (8, 16, 32), (8, 16, 32), placements={"blocks.0": 0, "blocks.1": 1}, microbatches=4
    )


PROGRAMS = {"mlp": (mlp, 2), "transformer": (transformer, 4), "pipeline": (pipeline, 2)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_page_shows_acts_bytes_and_transfers_of_every_device(name):
    make, devices = PROGRAMS[name]
    plan = make().plan
    page = Parsed(plan._page.html())
    pictures = page.all("svg")
    lanes = [
        picture["aria-label"] for picture in pictures if re.fullmatch(r"cpu 0\.\d+ \w+", picture.get("aria-label", ""))
    ]
    maps = [picture["aria-label"] for picture in pictures if picture.get("aria-label", "").startswith("memory of ")]
    for device in range(devices):
        assert f"cpu 0.{device} compute" in lanes
        assert any(item.startswith(f"memory of cpu 0.{device}, ") for item in maps)
    for box in page.all("rect"):
        x, width = (float(box[key].removesuffix("%")) for key in ("x", "width"))
        assert 0 <= x and x + width <= 100.1, box
    text = str(plan)
    cells = [item["text"] for item in page.all("td")]
    for kind, planned in collections.Counter(re.findall(r'^transfer "(\w+)"', text, re.M)).items():
        assert cells.count(kind) == planned
    actors = re.findall(r"^actor (a\d+): ", text, re.M)
    assert [cell for cell in cells if cell in set(actors)] == actors
    labels = " ".join(item["text"] for item in page.all("title"))
    kinds = dict(re.findall(r"^block (b\d+): (\w+)", text, re.M))
    registers = [
        r
        for r, block in re.findall(r"^register (r\d+): .* bytes \d+ in (b\d+)", text, re.M)
        if kinds[block] in ("register", "scratch")
    ]
    assert registers and [r for r in registers if f"{r}: " not in labels and f"{r} slot " not in labels] == []


def test_the_page_has_no_external_resources():
    text = mlp().plan._page.html()
    page = Parsed(text)
    assert not {"script", "img", "link", "iframe", "object", "embed", "base"} & {
        element["tag"] for element in page.elements
    }
    assert "://" not in text and "url(" not in text and "@import" not in text
    assert not any(key.startswith("on") or key in ("src", "href") for element in page.elements for key in element)
    assert any("default-src 'none'" in item.get("content", "") for item in page.all("meta"))


def test_text_of_the_user_is_escaped():
    wicked = "a<b>&amp;\"'</title><script>x</script>"

    class Net(nn.Module):
        def __init__(self):
            setattr(self, wicked, nn.Linear(4, 4))

        def forward(self, x):
            return getattr(self, wicked)(x)

    step = trained(Net(), "data=2", (8, 4), (8, 4))
    page = Parsed(step.plan._page.html())
    assert page.all("script") == [] and page.all("b") == [item for item in page.all("b") if item["text"]]
    assert any(wicked in element["text"] for element in page.elements)
    frame = Parsed(step.plan._repr_html_())
    assert [element["tag"] for element in frame.elements] == ["iframe"] and frame.elements[0][
        "srcdoc"
    ] == step.plan._page.html()


def test_a_plan_is_its_text_and_the_suffix_of_a_path_selects_the_format(tmp_path):
    step = mlp()
    plan = step.plan
    plan.save(tmp_path / "p.html")
    plan.save(str(tmp_path / "p.plan"))
    assert (tmp_path / "p.html").read_text() == plan._page.html()
    assert (tmp_path / "p.plan").read_text() == plan and plan.startswith('plan "step" world 1 rank 0')
    with pytest.raises(kz.UserError, match=r"must end in \.html \(a page\) or \.plan \(text\), got 'p\.txt'"):
        plan.save("p.txt")
    step.compile(np.zeros((32, 20), np.float32), np.zeros((32, 4), np.float32))
    assert step.plan != plan and "arg0 f32[32" not in plan._page.html()  # each plan keeps its own page


def test_the_command_writes_the_same_page(tmp_path):
    root = pathlib.Path(__file__).resolve().parents[2]
    command = root / os.environ.get("KAREZ_BUILD", "build") / "tools" / "karez"
    plan = mlp().plan
    plan.save(tmp_path / "p.plan")
    subprocess.run(
        [command, "plan", "explain", tmp_path / "p.plan", "--html", tmp_path / "p.html"], check=True, timeout=60
    )
    assert (tmp_path / "p.html").read_text() == plan._page.html()


@pytest.mark.skipif(not os.environ.get("KAREZ_ALL"), reason="needs Chromium: ./dev deps --long, ./dev test --long")
def test_a_browser_draws_the_page_at_any_width(tmp_path):
    browser = shutil.which("chromium")
    assert browser, "./dev deps --long installs Chromium"
    pictures = pathlib.Path(os.environ.get("KAREZ_PICTURES", tmp_path))
    for name, (make, _) in PROGRAMS.items():
        kz.worlds._end()
        make().plan.save(tmp_path / "p.html")
        for width, dark in ((500, False), (1400, False), (1400, True)):
            picture = pictures / f"plan-{name}-{width}{'-dark' if dark else ''}.png"
            options = [
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--user-data-dir={tmp_path / 'profile'}",
                f"--window-size={width},1800",
            ]
            options += ["--blink-settings=preferredColorScheme=0"] if dark else []
            subprocess.run(
                [browser, *options, f"--screenshot={picture}", f"file://{tmp_path / 'p.html'}"],
                check=True,
                timeout=120,
                capture_output=True,
            )
            shown = Image.open(picture).convert("RGB")
            colours = {colour for count, colour in shown.getcolors(1 << 24) if count > 40}
            back, act, variable = (
                ((0x14, 0x18, 0x1D), (0x6D, 0x8F, 0xF0), (0x6B, 0x74, 0x7E))
                if dark
                else ((255, 255, 255), (0x42, 0x69, 0xD0), (0x7D, 0x85, 0x90))
            )
            assert shown.width == width and {back, act, variable} <= colours, picture
