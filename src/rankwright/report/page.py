"""One HTML file with tables and charts that opens anywhere, offline."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.util import find_spec
from string import Template
from typing import Any, Literal

from rankwright import __version__
from rankwright.data.io.files import atomic_write


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite specification and what it shows, in words."""

    spec: Mapping[str, Any]
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a page: what to see in it, HTML (already escaped), charts, and a remark.

    Charts stand below each other ("one"), or side by side where there is room ("two", "many").
    A section of level 3 belongs to the section of level 2 before it.
    """

    title: str
    body: str = ""
    charts: tuple[Chart, ...] = ()
    remark: str = ""
    columns: Literal["one", "two", "many"] = "one"
    headline: str = ""
    level: Literal[2, 3] = 2


@dataclass(frozen=True)
class Page:
    """A title, a line under it, the facts that matter most, and sections."""

    title: str
    lead: str = ""
    sections: tuple[Section, ...] = field(default_factory=tuple)
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_charts(self) -> int:
        return sum(len(section.charts) for section in self.sections)

    def to_html(self) -> str:
        """The whole page: style, script and data inside, nothing fetched from anywhere.

        Charts are drawn by Vega-Lite, whose script comes with the package vl-convert-python
        (``pip install rankwright[report]``); without it the page holds the tables alone.

        >>> page = Page("Results", sections=(Section("Data", "<p>ten queries</p>"),))
        >>> "<h2>Data</h2>" in page.to_html(), "src=" in page.to_html()
        (True, False)
        """
        script = _vega() if self.n_charts else ""
        missing = "" if script or not self.n_charts else _MISSING
        sections = "".join(
            _section(place, each, bool(script)) for place, each in enumerate(self.sections, 1)
        )
        return Template(_file("page.html")).substitute(
            title=html.escape(self.title),
            lead=html.escape(self.lead),
            missing=missing,
            facts="".join(map(_fact, self.facts.items())),
            contents="".join(
                f'<a href="#part-{place}">{html.escape(each.title)}</a> '
                for place, each in enumerate(self.sections, 1)
                if each.level == 2
            ),
            sections=sections,
            version=__version__,
            style=_file("style.css"),
            vega=script,
            draw=_file("charts.js") if script else "",
        )


# What vl-convert takes by default: everything under its usual names, for plain scripts.
_SNIPPET = "window.vegaEmbed=vegaEmbed; window.vega=vega; window.vegaLite=vegaLite;"
_MISSING = (
    '<p class="missing">The charts of this page need the script of Vega-Lite: '
    "<code>pip install 'rankwright[report]'</code>, then write the page again.</p>"
)


def write_page(page: Page, path: Any) -> None:
    """Write a page; the file is replaced when the new one is whole."""
    with atomic_write(path, mode=0o666) as file:
        file.write(page.to_html().encode())


def key_value_table(rows: Mapping[str, Any]) -> str:
    """Settings as an HTML table."""
    body = "".join(
        f"<tr><th>{html.escape(str(key))}</th><td>{html.escape(str(value))}</td></tr>"
        for key, value in rows.items()
    )
    return f'<div class="wide"><table class="settings"><tbody>{body}</tbody></table></div>'


def _fact(fact: tuple[str, str]) -> str:
    name, value = map(html.escape, fact)
    return f"<div><dt>{name}</dt><dd>{value}</dd></div>"


def _section(place: int, section: Section, drawn: bool) -> str:
    head = f"h{section.level}"
    parts = [f'<section id="part-{place}"><{head}>{html.escape(section.title)}</{head}>']
    if section.headline:
        parts.append(f'<p class="headline">{html.escape(section.headline)}</p>')
    parts.append(section.body)
    if section.charts and drawn:
        charts = "".join(_figure(chart) for chart in section.charts)
        parts.append(f'<div class="charts {section.columns}">{charts}</div>')
    if section.remark:
        parts.append(f'<p class="remark">{html.escape(section.remark)}</p>')
    return "".join([*parts, "</section>\n"])


def _figure(chart: Chart) -> str:
    # "<" would end the script element early if a name held "</script>".
    spec = json.dumps(chart.spec).replace("<", "\\u003c")
    caption = f"<figcaption>{html.escape(chart.caption)}</figcaption>" if chart.caption else ""
    return (
        f'<figure><div class="chart"></div><script type="application/json">{spec}</script>'
        f"{caption}</figure>"
    )


def _file(name: str) -> str:
    return resources.files("rankwright.report").joinpath("templates", name).read_text("utf-8")


def _vega() -> str:
    """Vega, Vega-Lite and the code that puts them on a page; empty where they are not installed."""
    if find_spec("vl_convert") is None:
        return ""
    import vl_convert

    return str(vl_convert.javascript_bundle(_SNIPPET)).replace("</script", "<\\/script")
