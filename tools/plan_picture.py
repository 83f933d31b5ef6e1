"""Draws the timeline and the memory of the first device from the HTML report of a plan as one SVG picture.

Usage: build/tools/karez plan explain FILE --html report.html && python3 tools/plan_picture.py report.html picture.svg
"""

import html
import re
import sys

WIDTH, MARGIN, LABEL = 960, 16, 128
MEMORY, AXIS = 180, 18
COLOURS = {
    "compute": "#4269d0",
    "collective": "#d9731a",
    "input": "#2f8f5b",
    "fetch": "#9350c7",
    "state": "#7d8590",
    "variable": "#7d8590",
    "constant": "#a7adb5",
    "register": "#4269d0",
    "scratch": "#d9a514",
}
STYLE = """text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #59636e; }
.title { font-size: 14px; font-weight: 600; fill: #1c2128; }"""
SECTION = r'<section id="{}">(.*?)</section>'
REPORT_LANE = re.compile(
    r'<div class="lane"><span>([^<]*)</span><svg role="img"[^>]* height="(\d+)">(.*?)</svg></div>', re.S
)
RECTANGLE = re.compile(
    r'<rect[^>]*?fill:var\(--(\w+)\)[^>]*? x="([\d.]+)%" width="([\d.]+)%" y="([\d.]+)(%?)" height="([\d.]+)(%?)"'
)
TICK = re.compile(r'<text x="([\d.]+)%" y="12">([^<]*)</text>')
LEGEND = re.compile(r"var\(--(\w+)\)")


class Picture:
    """A list of SVG elements, added from top to bottom; `y` is the top of the free space."""

    def __init__(self):
        self.elements, self.y = [], MARGIN

    def text(self, x, y, text, css=""):
        self.elements.append(f'<text x="{x:g}" y="{y:g}"{css}>{html.escape(text, quote=False)}</text>')

    def rectangle(self, x, y, width, height, colour):
        self.elements.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{colour}"/>')

    def title(self, text):
        self.text(MARGIN, self.y + 14, text, ' class="title"')
        self.y += 24

    def legend(self, kinds):
        x = LABEL + MARGIN
        for kind in kinds:
            self.rectangle(x, self.y, 10, 10, COLOURS[kind])
            self.text(x + 15, self.y + 10, kind)
            x += 34 + 7 * len(kind)
        self.y += 18

    def ticks(self, ticks):
        for percent, text in ticks:
            self.text(position(percent), self.y + 12, text)
        self.y += AXIS

    def lane(self, label, rectangles, height):
        self.text(MARGIN, self.y + min(height, 18) - 5, label)
        self.rectangle(LABEL + MARGIN, self.y, WIDTH - LABEL - 2 * MARGIN, height, "#f5f7f9")
        for kind, x, width, y, y_unit, rectangle_height, height_unit in rectangles:
            top = float(y) * (height / 100 if y_unit else 1)
            bottom = top + float(rectangle_height) * (height / 100 if height_unit else 1)
            left, right = position(x), position(float(x) + float(width))
            self.rectangle(left, self.y + round(top, 2), max(right - left, 0.5), round(bottom - top, 2), COLOURS[kind])
        self.y += height + 2


def position(percent) -> float:
    """Returns the x coordinate of a time, given in percent of the launch."""
    return round(LABEL + MARGIN + float(percent) / 100 * (WIDTH - LABEL - 2 * MARGIN), 2)


def draw(report: str) -> str:
    timeline, memory = (re.search(SECTION.format(name), report, re.S)[1] for name in ("timeline", "memory"))
    ticks = TICK.findall(timeline)
    picture = Picture()
    picture.title("One launch, as predicted: the acts of each device")
    picture.legend(LEGEND.findall(timeline.split('<div class="lane">')[0]))
    picture.ticks(ticks)
    for label, height, body in REPORT_LANE.findall(timeline):
        picture.lane(html.unescape(label), RECTANGLE.findall(body), int(height))
    picture.y += 14
    picture.title("Memory during the launch: " + html.unescape(re.search(r"<h3>(.*?)</h3>", memory)[1]))
    picture.legend(LEGEND.findall(memory.split("<h3>")[0]))
    picture.lane("addresses", RECTANGLE.findall(REPORT_LANE.search(memory)[3]), MEMORY)
    picture.ticks(ticks)
    height = picture.y + MARGIN
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    )
    background = f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff" stroke="#d5dae1"/>'
    return "\n".join([opening, f"<style>{STYLE}</style>", background, *picture.elements, "</svg>"]) + "\n"


if __name__ == "__main__":
    report_path, picture_path = sys.argv[1:]
    with open(report_path) as file:
        text = draw(file.read())
    with open(picture_path, "w") as file:
        file.write(text)
