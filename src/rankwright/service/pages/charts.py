"""Line charts as SVG, drawn on the server; colors come from the style sheet by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

from markupsafe import Markup

WIDTH, HEIGHT = 560, 220
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 40
MOST_POINTS = 280


def line_chart(
    lines: Mapping[str, Sequence[float]], *, x_title: str, y_title: str, label: str, first: int = 1
) -> Markup:
    """Lines over 1, 2, 3, ... with axes from 0; ``label`` is what a screen reader says.

    The first line is drawn in the accent color, the others dashed. Text is escaped.

    >>> svg = line_chart({"a<b": [1.0, 0.5]}, x_title="n", y_title="loss", label="The loss")
    >>> "a&lt;b" in svg, svg.count("<polyline")
    (True, 1)
    """
    n_points = max((len(line) for line in lines.values()), default=0)
    last = max(first + n_points - 1, first + 1)
    top = _round_up(max((max(line, default=0.0) for line in lines.values()), default=1.0))

    def x(position: float) -> float:
        return LEFT + (position - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
    ]
    for step in range(5):
        value = top * step / 4
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" '
                     f'y1="{y(value):.1f}" y2="{y(value):.1f}"/>')  # fmt: skip
        parts.append(_text(LEFT - 6, y(value) + 4, f"{value:g}", "end"))
    parts += [
        _text(x(position), HEIGHT - BOTTOM + 16, f"{position:,}", "middle")
        for position in _ticks(first, last)
    ]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_title, "middle"))
    for number, line in enumerate(lines.values()):
        points = " ".join(f"{x(first + k):.1f},{y(line[k]):.1f}" for k in _thinned(len(line)))
        parts.append(f'<polyline class="line line-{number}" points="{points}"/>')
    parts.append("</svg>")
    legend = "".join(
        f'<span class="key key-{number}">{escape(name)}</span>' for number, name in enumerate(lines)
    )
    head = f'<p class="legend"><span class="axis">{escape(y_title)}</span>{legend}</p>'
    return Markup(head + "".join(parts))


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 5 or 8 times a power of ten: quarters of it are short numbers.

    >>> [_round_up(value) for value in (0.37, 1.2, 4.5, 0.0)]
    [0.4, 2.0, 5.0, 1.0]
    """
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(float(f"{step * power:g}") for step in (1, 2, 4, 5, 8, 10) if step * power >= value)


def _ticks(first: int, last: int) -> list[int]:
    """At most six multiples of 1, 2, 5, 10, 20, ... from first to last.

    >>> _ticks(1, 90), _ticks(1, 3)
    ([20, 40, 60, 80], [1, 2, 3])
    """
    least = (last - first) / 5
    step = next(k * 10**e for e in range(20) for k in (1, 2, 5) if k * 10**e >= least)
    return list(range(ceil(first / step) * step, last + 1, step))


def _thinned(n: int) -> list[int]:
    """At most ``MOST_POINTS`` indices, the first and the last included."""
    step = max(1, ceil(n / MOST_POINTS))
    return [*range(0, n - 1, step), n - 1] if n else []
