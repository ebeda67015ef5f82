"""The report page: whole, safe, and drawn by a browser without a complaint."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import rankwright as rw
from accessibility import axe_source
from rankwright.data.datasets.synthetic import make_queries
from rankwright.report.demonstrations import metasearch
from rankwright.report.page import Chart, Page, Section, key_value_table, write_page
from rankwright.report.sections import (
    comparison_section,
    contributions_section,
    learning_section,
    queries_section,
    rankings_section,
    settings_section,
    thresholds_section,
    training_page,
    verdict,
    win_loss_section,
)

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def page() -> Page:
    """A page with a section of each kind; one system has a hostile name."""
    data = make_queries(30, docs_per_query=12, n_features=4, random_state=0).items
    models = {
        "linear": rw.RidgeRanker().fit(data.X, data.y, qid=data.qid),
        EVIL: rw.PRank().fit(data.X, data.y, qid=data.qid),
    }
    scores = {name: model.decision_function(data.X) for name, model in models.items()}
    judged = {
        name: rw.evaluate(each, data.y, data.qid, ["NDCG@10", "AP"])
        for name, each in scores.items()
    }
    comparison = rw.compare(judged, n_resamples=200)
    docid = np.array([f"{EVIL} {k}" for k in range(len(data))], dtype=object)
    ordinal = models[EVIL]
    contributions = contributions_section(models["linear"], data.X, ["a", "b", "c", EVIL])
    assert contributions is not None
    sections = (
        comparison_section(comparison),
        learning_section({"a": [0.1, 0.2, 0.3], EVIL: np.linspace(0, 1, 1000)}, "NDCG@10"),
        queries_section(judged, comparison),
        win_loss_section(judged, comparison),
        contributions,
        thresholds_section(scores[EVIL], data.y, ordinal.thresholds_),
        rankings_section(scores, data.y, data.qid, docid),
        settings_section({"command": EVIL}),
    )
    return Page(f"A report of {EVIL}", "A lead.", sections)


def before_the_script(text: str) -> str:
    """Everything but Vega's own code, which has strings with markup in it."""
    return text.split("<script>")[0]


def test_a_page_holds_everything_it_shows(page: Page) -> None:
    text = page.to_html()
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", before_the_script(text))
    assert "default-src 'none'" in text


def test_a_page_allows_its_own_scripts_only_and_evaluates_nothing(page: Page) -> None:
    def policy(page: Page) -> str:
        return re.search(r'Policy" content="([^"]*)"', page.to_html())[1]  # type: ignore[index]

    drawn, plain = policy(page), policy(Page("No charts"))
    assert "unsafe-eval" not in drawn
    assert re.search(r"script-src ('sha256-[\w+/=]+' ?){2};", drawn)
    assert "unsafe" not in plain
    assert "script-src 'none'; style-src 'sha256-" in plain


def test_names_from_data_are_text_and_never_markup(page: Page) -> None:
    text = before_the_script(page.to_html())
    assert "<img" not in text
    assert text.count("</script>") == page.n_charts
    assert html.escape(EVIL) in text


def test_without_the_chart_script_the_tables_remain(page: Page, monkeypatch) -> None:
    monkeypatch.setattr("rankwright.report.page._vega", lambda: "")
    text = page.to_html()
    assert "rankwright[report]" in text
    assert "<figure>" not in text
    assert "<h2>Comparison</h2>" in text


def test_every_chart_is_valid_vega_lite(page: Page) -> None:
    vl_convert = pytest.importorskip("vl_convert")
    charts = [chart for section in page.sections for chart in section.charts]
    assert len(charts) == page.n_charts >= 9
    for chart in charts:
        spec = {**chart.spec, "width": 400}
        assert vl_convert.vegalite_to_svg(spec).startswith("<svg")


def test_a_page_says_first_what_to_see(page: Page) -> None:
    text = page.to_html()
    assert '<p class="headline">' in text
    assert "has the best NDCG@10" in text
    named = Page("Facts", sections=(Section("A"), Section("B", level=3)), facts={"best": "a<b"})
    assert "<dt>best</dt><dd>a&lt;b</dd>" in named.to_html()
    assert "<h3>B</h3>" in named.to_html()
    assert 'href="#part-2"' not in named.to_html()


@pytest.mark.parametrize(
    "values, words",
    [
        ({"one": 0.9}, "one has AP"),
        ({"one": 0.9, "two": 0.1}, "significantly better than two."),
        ({"one": 0.9, "two": 0.9}, "not significantly better than two."),
    ],
)
def test_the_verdict_says_whether_a_difference_is_significant(values, words) -> None:
    y, qid = np.tile([0, 0, 1], 40), np.repeat(np.arange(40), 3)
    rng = np.random.default_rng(0)
    systems = {
        name: rw.evaluate(good * y + 0.1 * rng.random(120), y, qid, "AP")
        for name, good in values.items()
    }
    assert words in verdict(rw.compare(systems, n_resamples=500))


def test_a_page_replaces_an_old_one_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    write_page(Page("New", sections=(Section("Part", key_value_table({"a": 1})),)), path)
    assert "<h2>Part</h2>" in path.read_text()
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine: the page was not opened in a browser")
    return found


def opened(path: Path, profile: Path, width: int) -> tuple[str, str]:
    """The page as the browser holds it after drawing, and what its console said."""
    done = subprocess.run(
        [
            chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--disable-dev-shm-usage", "--no-first-run", "--enable-logging=stderr", "--v=0",
            f"--user-data-dir={profile}", f"--window-size={width},1200",
            "--virtual-time-budget=20000", "--timeout=60000", "--dump-dom", path.as_uri(),
        ],
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, "\n".join(console)


@pytest.mark.parametrize("width", [500, 1400])
def test_every_chart_draws_in_a_browser_without_an_error(page, tmp_path, width) -> None:
    pytest.importorskip("vl_convert")
    path = tmp_path / "page.html"
    write_page(page, path)
    dom, console = opened(path, tmp_path / "profile", width)
    drawn = re.search(r'data-charts="(\d+) of (\d+)"', dom)
    assert drawn is not None, (dom[:2000], console)
    assert drawn[1] == drawn[2] == str(page.n_charts)
    failures = re.search(r'data-failures="([^"]*)"', dom)
    assert failures is not None
    assert json.loads(html.unescape(failures[1])) == []
    assert dom.count("<svg") >= page.n_charts
    assert console == ""


def test_long_names_and_ids_leave_room_for_the_numbers_on_a_phone(page, tmp_path) -> None:
    """The name of a system stays beside its numbers, and no list is wider than the page."""
    measured = (
        "<script>for (const each of document.querySelectorAll('.compare td:first-child, .lists'))"
        " document.body.append(` [${each.offsetWidth} ${each.scrollWidth}]`);</script>"
    )
    path = tmp_path / "page.html"
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.to_html())
    path.write_text(text + measured, encoding="utf-8")
    dom, _ = opened(path, tmp_path / "profile", 500)
    widths = re.findall(r" \[(\d+) (\d+)\]", dom)
    assert len(widths) > 2
    names = widths[:2]  # two systems
    assert all(int(width) < 0.5 * 500 for width, _ in names), widths
    assert all(int(inside) <= int(width) for width, inside in widths[2:]), widths


def test_axe_finds_no_violation(page, tmp_path) -> None:
    pytest.importorskip("vl_convert")
    ask = (
        f"<script>{axe_source()}</script><script>window.addEventListener('load', async () => {{"
        "const found = (await axe.run()).violations.map(v => [v.id, v.nodes[0].html]);"
        "document.documentElement.dataset.axe = JSON.stringify(found);});</script>"
    )
    path = tmp_path / "page.html"
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.to_html())
    path.write_text(text.replace("</body>", f"{ask}</body>"), encoding="utf-8")
    dom, console = opened(path, tmp_path / "profile", 1200)
    found = re.search(r'data-axe="([^"]*)"', dom)
    assert found is not None, (dom[:2000], console)
    assert json.loads(html.unescape(found[1])) == []


def test_a_chart_that_cannot_be_drawn_says_so(tmp_path) -> None:
    pytest.importorskip("vl_convert")
    path = tmp_path / "page.html"
    broken = Chart({"mark": "nothing-of-the-kind", "data": {"values": []}})
    write_page(Page("Broken", sections=(Section("Part", charts=(broken,)),)), path)
    dom, _ = opened(path, tmp_path / "profile", 900)
    assert 'data-charts="0 of 1"' in dom
    assert "could not be drawn" in dom


def test_a_part_of_the_demo_has_a_table_and_sections() -> None:
    part = metasearch(3)
    assert len(part.sections) == 2
    assert "learned by RankBoost" in part.text


def test_the_page_of_a_training_on_named_features_warns_of_nothing() -> None:
    data = make_queries(10, n_features=2, random_state=0).items
    named = dataclasses.replace(data, feature_names=("bm25", "clicks"))
    model = rw.AutoRanker([("ordinal", rw.PRank())], combine=False).fit_items(named)
    sections = training_page(model, named).sections
    assert "Thresholds" in [section.title for section in sections]
