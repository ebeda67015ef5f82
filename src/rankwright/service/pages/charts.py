"""Line charts as SVG, drawn on the server; colors come from the style sheet by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

from markupsafe import Markup

WIDTH, HEIGHT = 560, 240
LEFT, RIGHT, TOP, BOTTOM = 50, 14, 12, 50
MOST_POINTS = 280


def line_chart(
    lines: Mapping[str, Sequence[tuple[float, float]]], *, x_title: str, y_title: str, label: str
) -> Markup:
    """Lines through points (x, y), y from 0 up; ``label`` is what a screen reader says.

    The first line is drawn in the accent color, the others dashed. Text is escaped.

    >>> points = [(1, 1.0), (2, 0.5)]
    >>> svg = line_chart({"a<b": points}, x_title="n", y_title="loss", label="The loss")
    >>> "a&lt;b" in svg, svg.count("<polyline")
    (True, 1)
    """
    points = [point for line in lines.values() for point in line] or [(0.0, 0.0)]
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    last = max(last, first + 1)
    top = _round_up(max(y for _, y in points))

    def x_of(position: float) -> float:
        return LEFT + (position - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y_of(value: float) -> float:
        return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
    ]
    for value in (top * step / 4 for step in range(5)):
        ends = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(value):.1f}" y2="{y_of(value):.1f}"'
        parts += [
            f'<line class="grid-line" {ends}/>',
            _text(LEFT - 6, y_of(value) + 5, f"{value:g}", "end"),
        ]
    parts += [
        _text(x_of(position), HEIGHT - BOTTOM + 21, f"{position:,}", "middle")
        for position in _ticks(ceil(first), floor(last))
    ]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 5, x_title, "middle"))
    for number, line in enumerate(lines.values()):
        pairs = (line[k] for k in _thinned(len(line)))
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in pairs)
        parts.append(f'<polyline class="line line-{number}" points="{path}"/>')
    legend = "".join(
        f'<span class="key key-{number}">{escape(name)}</span>' for number, name in enumerate(lines)
    )
    head = f'<p class="legend"><span class="axis">{escape(y_title)}</span>{legend}</p>'
    return Markup(head + "".join([*parts, "</svg>"]))


def interval_bar(low: float, middle: float, high: float, label: str) -> Markup:
    """A share from 0 to 1 with its interval, and a mark at one half."""
    x = [10 + 280 * min(max(value, 0.0), 1.0) for value in (low, middle, high)]
    return Markup(
        f'<svg class="interval" viewBox="0 0 300 26" role="img" aria-label="{escape(label)}">'
        '<line class="grid-line" x1="10" x2="290" y1="13" y2="13"/>'
        '<line class="half" x1="150" x2="150" y1="2" y2="24"/>'
        f'<line class="bar" x1="{x[0]:.1f}" x2="{x[2]:.1f}" y1="13" y2="13"/>'
        f'<circle class="dot" cx="{x[1]:.1f}" cy="13" r="5"/></svg>'
    )


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
