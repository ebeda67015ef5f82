"""How results look in notebooks: plain HTML tables that follow the theme of the page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

COLORS = {"PASS": "#1a7f37", "WARN": "#b35900", "FAIL": "#cf222e"}  # AA on white; text says it too


def html_table(
    header: Sequence[object], rows: Iterable[Sequence[object]], caption: str = ""
) -> str:
    """An HTML table of escaped texts; numbers are aligned at the right.

    >>> "<th>a &lt; b</th>" in html_table(["a < b"], [[1]])
    True
    """
    # A header cell without text is one that screen readers stop at for nothing.
    head = "".join(f"<th>{html.escape(str(n))}</th>" if str(n) else "<td></td>" for n in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, Bar):
        return value.to_html()
    if isinstance(value, bool | str) or value is None:
        text = html.escape("" if value is None else str(value))
        color = COLORS.get(text)
        style = f"text-align:left;{f'color:{color};font-weight:600' if color else ''}"
        return f'<td style="{style}">{text}</td>'
    text = f"{value:.4g}" if isinstance(value, float) else html.escape(str(value))
    return f'<td style="text-align:right">{text}</td>'


class Bar:
    """A bar in a cell of a table: to the right of the middle if positive, else to the left."""

    def __init__(self, value: float, largest: float) -> None:
        self.value, self.share = value, min(abs(value) / largest, 1.0) if largest else 0.0

    def to_html(self) -> str:
        color, side = ("#2b7bba", "50%") if self.value >= 0 else ("#d55e00", "")
        left = side or f"{50 - 50 * self.share:.1f}%"
        bar = f"margin-left:{left};width:{50 * self.share:.1f}%;height:.8em;background:{color}"
        return f'<td style="min-width:12em"><div style="{bar}"></div></td>'
