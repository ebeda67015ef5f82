"""The papers' figures as pictures: panels of lines, written to ``experiments/_results``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair

RESULTS = Path(__file__).parent / "_results"


@dataclass(frozen=True)
class Panel:
    """One line a series over the same places."""

    title: str
    x_title: str
    x: Sequence[float]
    lines: Mapping[str, Sequence[float]]
    log: bool = False  # the places on a logarithmic scale
    level: float | None = None  # a thin line at this height


def draw(name: str, rows: Sequence[Sequence[Panel]]) -> None:
    """Write the panels, row by row, as ``<name>.png``."""
    picture = altair.vconcat(*(altair.hconcat(*(_chart(panel) for panel in row)) for row in rows))
    RESULTS.mkdir(exist_ok=True)
    picture.resolve_scale(color="independent").save(RESULTS / f"{name}.png", scale_factor=2)
    print(f"picture: experiments/_results/{name}.png")


def _chart(panel: Panel) -> Any:
    values = [
        {"x": float(x), "y": float(y), "line": name}
        for name, line in panel.lines.items()
        for x, y in zip(panel.x, line, strict=True)
    ]
    scale = altair.Scale(type="log" if panel.log else "linear", nice=False)
    chart = (
        altair.Chart(altair.Data(values=values), title=panel.title, width=380, height=240)
        .mark_line()
        .encode(
            altair.X("x:Q", title=panel.x_title, scale=scale),
            altair.Y("y:Q", title=None, scale=altair.Scale(zero=False)),
            altair.Color("line:N", title=None, sort=list(panel.lines)),
        )
    )
    if panel.level is None:
        return chart
    rule = altair.Chart(altair.Data(values=[{"y": panel.level}])).mark_rule(strokeWidth=0.5)
    return chart + rule.encode(y="y:Q")
