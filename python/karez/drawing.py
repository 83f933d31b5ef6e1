"""Drawings of the shards of a tensor on each device: as text, and in a notebook as SVG."""

from __future__ import annotations

from typing import Any

from .errors import UserError
from .type_aliases import Tensor
from .user_line import _at

Box = tuple[tuple[int, int], ...]
COLOURS = ("#9ecae1", "#fdd0a2", "#a1d99b", "#dadaeb", "#fdae6b", "#c7e9c0", "#bcbddc", "#d9d9d9")


def show(x: Tensor) -> Drawing:
    """A drawing of the shards of a tensor. The rows and columns of the drawing are the first two dimensions of the
    tensor, and each field lists the devices that hold that part of the tensor."""
    if not isinstance(x, Tensor) or x._kind != "array":
        what = f"a {x._kind} value" if isinstance(x, Tensor) else type(x).__name__
        raise UserError(
            f"show: expected a result of a compiled function, or a tensor computed outside of one, got {what}{_at()}"
        )
    places = [(device, tuple(tuple(item) for item in ranges)) for device, ranges in x._device_boxes()]
    return Drawing(x._layout_text(), places)


class Drawing:
    """A drawing that prints as text; a notebook shows it as SVG."""

    def __init__(self, title: str, places: list[tuple[str, Box]]) -> None:
        self.title, self.places = title, places
        self.boxes: list[tuple[Box, list[str]]] = []  # distinct boxes, with the devices that hold them
        for device, box in places:
            known_devices = next((devices for item, devices in self.boxes if item == box), None)
            if known_devices is None:
                self.boxes.append((box, [device]))
            else:
                known_devices.append(device)

    def _ranges(self, dim: int) -> list[tuple[int, int]]:
        """The intervals of a dimension, in order; one full interval if the dimension does not exist."""
        return sorted({box[dim] for box, _ in self.boxes}) if len(self.places[0][1]) > dim else [(0, 1)]

    def _field(self, row: tuple[int, int], column: tuple[int, int]) -> list[tuple[str, str]]:
        """The text of one field: a list of (ranges in the other dimensions, devices)."""
        found = []
        for box, devices in self.boxes:
            padded = (*box, (0, 1), (0, 1))[: max(2, len(box))]
            if padded[:2] == (row, column):
                found.append((", ".join(_text(item) for item in box[2:]), " ".join(devices)))
        has_more_dimensions = len({ranges for ranges, _ in found}) > 1
        return [(ranges if has_more_dimensions else "", devices) for ranges, devices in found]

    def __repr__(self) -> str:
        rows, columns = self._ranges(0), self._ranges(1)
        fields = [
            [
                "; ".join(f"[{where}] {devices}" if where else devices for where, devices in self._field(row, column))
                for column in columns
            ]
            for row in rows
        ]
        names = [_text(row) if len(self.places[0][1]) > 0 else "" for row in rows]
        heads = [_text(column) if len(self.places[0][1]) > 1 else "" for column in columns]
        widths = [max(len(head), *(len(line[i]) for line in fields)) for i, head in enumerate(heads)]
        first = max(map(len, names))
        lines = [" " * first + "  " + "  ".join(head.ljust(w) for head, w in zip(heads, widths))] if any(heads) else []
        lines += [
            name.rjust(first) + "  " + "  ".join(field.ljust(w) for field, w in zip(line, widths))
            for name, line in zip(names, fields)
        ]
        return "\n".join([self.title, *("  " + line.rstrip() for line in lines)])

    def _repr_svg_(self) -> str:
        rows, columns = self._ranges(0), self._ranges(1)
        lines = max(len(self._field(row, column)) for row in rows for column in columns)
        width, height, left, top = 120, 24 + 16 * lines, 70, 50
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width * len(columns) + 10}" '
            f'height="{top + height * len(rows) + 10}" font-family="sans-serif" font-size="12">',
            f'<text x="8" y="18" font-size="14">{_escaped(self.title)}</text>',
        ]
        devices = [device for device, _ in self.places]
        for j, column in enumerate(columns):
            if len(self.places[0][1]) > 1:
                out.append(_label(left + width * (j + 0.5), top - 8, _text(column)))
        for i, row in enumerate(rows):
            if len(self.places[0][1]) > 0:
                out.append(_label(left / 2, top + height * (i + 0.5) + 4, _text(row)))
            for j, column in enumerate(columns):
                field = self._field(row, column)
                colour = COLOURS[devices.index(field[0][1].split()[0]) % len(COLOURS)] if field else "#ffffff"
                out.append(
                    f'<rect x="{left + width * j}" y="{top + height * i}" width="{width}" height="{height}" '
                    f'fill="{colour}" stroke="#333"/>'
                )
                for k, (where, names) in enumerate(field):
                    out.append(
                        _label(
                            left + width * (j + 0.5),
                            top + height * i + 20 + 16 * k,
                            f"[{where}] {names}" if where else names,
                        )
                    )
        return "\n".join([*out, "</svg>"])


def _label(x: float, y: float, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _text(bounds: Any) -> str:
    return f"{bounds[0]}:{bounds[1]}"


__all__ = ["Drawing", "show"]
