"""A page of tables and charts in one offline HTML file, and what its results were made with."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from string import Template
from typing import Any, Literal

from rankwright import __version__
from rankwright._typing import FilePath
from rankwright.data.io.files import atomic_write


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite specification and its caption."""

    spec: Mapping[str, Any]
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """A section of a page: heading, HTML (already escaped), charts and a remark.

    ``columns`` arranges the charts where there is room; ``folded`` charts are shown on a click. A
    section of level 3 belongs to the section of level 2 before it.
    """

    title: str
    body: str = ""
    charts: tuple[Chart, ...] = ()
    remark: str = ""
    columns: Literal["one", "two", "many"] = "one"
    headline: str = ""
    level: Literal[2, 3] = 2
    folded: tuple[Chart, ...] = ()


@dataclass(frozen=True)
class Page:
    """A report page: title, subtitle, key facts and sections."""

    title: str
    lead: str = ""
    sections: tuple[Section, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_charts(self) -> int:
        return sum(len(section.charts) + len(section.folded) for section in self.sections)

    def to_html(self) -> str:
        """The whole page with its styles, scripts and data; nothing is fetched from the network.

        Charts are drawn by Vega-Lite, whose script comes with the package vl-convert-python
        (``pip install rankwright[report]``); without it the page has only the tables.

        >>> page = Page("Results", sections=(Section("Data", "<p>ten queries</p>"),))
        >>> "<h2>Data</h2>" in page.to_html(), "src=" in page.to_html()
        (True, False)
        """
        script = _vega() if self.n_charts else ""
        style, scripts = _file("style.css"), [script, _file("charts.js")] if script else []
        numbered = list(enumerate(self.sections, 1))
        return Template(_file("page.html")).substitute(
            title=html.escape(self.title),
            lead=html.escape(self.lead),
            missing="" if script or not self.n_charts else _MISSING,
            facts="".join(
                f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>"
                for name, value in self.facts.items()
            ),
            contents="".join(
                f'<a href="#part-{number}">{html.escape(section.title)}</a> '
                for number, section in numbered
                if section.level == 2
            ),
            sections="".join(_section(*part, bool(script)) for part in numbered),
            version=__version__,
            style=style,
            scripts="".join(f"<script>{text}</script>\n" for text in scripts),
            policy=_policy(style, scripts),
        )


def _policy(style: str, scripts: list[str]) -> str:
    """A content security policy: only these scripts run, and nothing is fetched or evaluated.

    The chart library adds style elements of its own, for which a page with charts allows inline
    styles; a page without charts does not.
    """
    allowed = " ".join(map(_hash, scripts)) or "'none'"
    styles = "'unsafe-inline'" if scripts else _hash(style)
    return (
        f"default-src 'none'; script-src {allowed}; style-src {styles}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


# The default of vl-convert: every library under its usual name, for plain scripts.
_SNIPPET = "window.vegaEmbed=vegaEmbed; window.vega=vega; window.vegaLite=vegaLite;"
_MISSING = (
    '<p class="missing">The charts of this page need the Vega-Lite script: '
    "<code>pip install 'rankwright[report]'</code>, then write the page again.</p>"
)


def write_page(page: Page, path: FilePath) -> None:
    """Write a page to an HTML file, atomically."""
    with atomic_write(path, mode=0o666) as file:
        file.write(page.to_html().encode(errors="backslashreplace"))


def key_value_table(rows: Mapping[str, Any]) -> str:
    """Settings as an HTML table."""
    pairs = [(html.escape(str(key)), html.escape(str(value))) for key, value in rows.items()]
    body = "".join(f"<tr><th>{key}</th><td>{value}</td></tr>" for key, value in pairs)
    return f'<div class="wide"><table class="settings"><tbody>{body}</tbody></table></div>'


def _section(number: int, section: Section, drawn: bool) -> str:
    head = f"h{section.level}"
    parts = [f'<section id="part-{number}"><{head}>{html.escape(section.title)}</{head}>']
    if section.headline:
        parts.append(f'<p class="headline">{html.escape(section.headline)}</p>')
    parts.append(section.body)
    if section.charts and drawn:
        charts = "".join(_figure(chart) for chart in section.charts)
        parts.append(f'<div class="charts {section.columns}">{charts}</div>')
    if section.folded and drawn:
        charts, n = "".join(_figure(chart) for chart in section.folded), len(section.folded)
        summary = f"{n} more chart{'s' if n > 1 else ''}"
        parts.append(f'<details><summary>{summary}</summary><div class="charts one">{charts}')
        parts.append("</div></details>")
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


@cache
def _vega() -> str:
    """The scripts of Vega and Vega-Lite; empty if vl-convert is not installed."""
    if find_spec("vl_convert") is None:
        return ""
    import vl_convert

    return str(vl_convert.javascript_bundle(_SNIPPET)).replace("</script", "<\\/script")


def environment() -> dict[str, str]:
    """Versions of this package, Python and the numerical libraries.

    >>> list(environment())[:3]
    ['rankwright', 'Python', 'numpy']
    """
    versions = {"rankwright": __version__, "Python": platform.python_version()}
    for name in ("numpy", "scipy", "scikit-learn", "numba"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return versions | {"machine": f"{platform.system()} {platform.machine()}"}


def file_fingerprint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Path, size and SHA-256 of a file; only the path if it is not a regular file."""
    if not os.path.isfile(path):
        return {"path": os.fspath(path)}
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": os.fspath(path), "bytes": os.path.getsize(path), "sha256": digest}
