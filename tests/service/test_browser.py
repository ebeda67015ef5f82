"""A real browser judges with keys. Skipped where Playwright or Chromium is not installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time

import pytest

from accessibility import axe_source
from rankwright.service.api.security import Tokens

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
TIMEOUT = 180_000  # milliseconds; the first page loads compiled loops, on a busy machine
EVIL = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def serve(tmp_path):
    """Start a service on a free port; its address."""
    import uvicorn

    from rankwright.service import Settings, create_app

    servers = []

    def start(**settings):
        app = create_app(Settings(store=str(tmp_path / "log.db"), **settings))
        server = uvicorn.Server(uvicorn.Config(app, port=0, ws="none", log_level="warning"))
        thread = threading.Thread(target=server.run)
        thread.start()
        servers.append((server, thread))
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join()


@pytest.fixture
def open_page(browser):
    """Open a page that must not report an error; ``faults`` are what it reported.

    Do not take screenshots of these pages: Playwright hides the caret and leaves ``style=""`` at
    every input, htmx copies that attribute into the next answer, and the console reports an inline
    style (of the empty text) that the content security policy refuses.
    """
    contexts, faults = [], []

    def open_(url, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(TIMEOUT)
        page.on("console", lambda m: faults.append(m.text) if m.type != "log" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("requestfailed", lambda request: faults.append(f"{request.failure}: {request.url}"))
        page.goto(url)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert [fault for fault in faults if "net::ERR_ABORTED" not in fault] == []  # left the page


def press(page, key) -> None:
    """Press a key and wait for the next item."""
    form_key = page.input_value("input[name=key] >> nth=0")
    page.keyboard.press(key)
    changed = "old => document.querySelector('input[name=key]').value !== old"
    page.wait_for_function(changed, arg=form_key)


def start_judging(page, name="ann") -> None:
    page.fill("#name", name)
    page.keyboard.press("Enter")
    page.wait_for_selector("#work")


def test_twenty_items_by_keys_one_undone_then_pairs_and_the_export(
    serve, open_page, tmp_path
) -> None:
    page = open_page(serve() + "/judge")
    start_judging(page)
    loss = page.inner_text("#curve-value")
    curve = page.inner_text(".series tbody")
    for key in "01234asdfg" * 2:
        press(page, key)
    assert page.inner_text(".progress") == "20 of 60"
    assert page.inner_text("#n-seen") == str(72 + 20)
    assert page.inner_text("#curve-value") != loss
    assert page.inner_text(".series tbody") != curve
    assert "20 of 60 done" in page.inner_text("#status")

    press(page, "u")
    assert page.inner_text(".progress") == "19 of 60"
    assert page.inner_text("#n-seen") == str(72 + 19)
    assert "taken back" in page.inner_text("#status")
    press(page, "4")

    page.get_by_role("link", name="Pairs").click()
    page.wait_for_selector(".documents.two")
    for key in ("ArrowLeft", "ArrowRight", "ArrowDown", "a", "s", "d"):
        press(page, key)
    assert page.inner_text(".progress") == "6 of 60"
    assert page.inner_text(".series tbody")

    with page.expect_download() as download:
        page.get_by_role("link", name="TREC qrels").click()
    qrels = tmp_path / "judged.qrels"
    download.value.save_as(qrels)
    pairs = {tuple(line.split()[::2]) for line in qrels.read_text().splitlines()}
    assert len(pairs) >= 20
    run = tmp_path / "system.run"
    lines = (f"{q} Q0 {d} {n} {100 - n} me\n" for n, (q, d) in enumerate(sorted(pairs)))
    run.write_text("".join(lines))
    command = [sys.executable, "-m", "rankwright", "evaluate", run, qrels, "-m", "NDCG@10"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 0.0 < float(re.search(r"NDCG@10\s+(\S+)", result.stdout)[1]) <= 1.0


def test_magnitudes_notes_and_the_other_keys(serve, open_page) -> None:
    page = open_page(serve() + "/judge")
    start_judging(page)
    page.goto(page.url.replace("grades", "magnitudes"))
    for key in ("7", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    assert page.inner_text("output") == "75"
    page.keyboard.press("n")
    page.keyboard.type("u and 3 are letters here")
    page.keyboard.press("Escape")
    press(page, "Enter")
    assert "Magnitude 75" in page.inner_text("#status")
    page.get_by_role("button", name="Skip").focus()
    press(page, " ")
    page.wait_for_function("() => document.activeElement.value === 'skip'")  # after the swap
    for key, said in (("l", "Saved for later"), ("x", "Skipped"), ("c", "cannot judge")):
        press(page, key)
        assert said in page.inner_text("#status")
    text = page.evaluate("() => fetch('/judge/export/csv').then(answer => answer.text())")
    assert "75,u and 3 are letters here" in text


def test_a_judge_signs_in_with_a_token(serve, open_page, tmp_path) -> None:
    (tmp_path / "tokens").write_text("bob abcdef0123456789 judge\nann 0123456789abcdef\n")
    address = serve(tokens=Tokens.read(tmp_path / "tokens"))
    page = open_page(address + "/judge")
    assert page.url.endswith("/login")
    page.fill("#token", "abcdef0123456789")
    page.keyboard.press("Enter")
    page.get_by_text("You judge as bob").wait_for()
    assert page.url.endswith("/judge")
    page.get_by_role("button", name="Start judging").click()
    page.wait_for_selector("#work")
    for key in "31u2":
        press(page, key)
    assert page.inner_text(".progress") == "2 of 60"
    assert page.locator(".who").inner_text() == "bob"
    assert page.get_by_role("button", name="Serve this model").count() == 0  # for admin only
    page.goto(address + "/")
    assert page.url.endswith("/judge")  # a judge has no other page
    other = open_page(address + "/")
    other.fill("#token", "0123456789abcdef")
    other.keyboard.press("Enter")
    other.get_by_role("heading", name="Dashboard").wait_for()
    assert "bob: judge 2" in other.inner_text(".events")


def test_an_answer_that_is_not_saved_does_not_look_as_if_it_were(serve, browser) -> None:
    page = browser.new_page()
    page.set_default_timeout(TIMEOUT)
    page.goto(serve() + "/judge")
    start_judging(page)
    page.route("**/judge/answer", lambda route: route.abort())
    page.keyboard.press("3")
    page.get_by_role("alert").filter(has_text="Not saved: the server cannot be reached").wait_for()
    assert page.inner_text(".progress") == "0 of 60"
    page.unroute("**/judge/answer")
    press(page, "3")
    assert page.inner_text(".progress") == "1 of 60"
    assert page.inner_text("#alert") == ""
    page.close()


def test_keys_pressed_while_an_answer_is_on_its_way_judge_the_next_items(serve, open_page) -> None:
    page = open_page(serve() + "/judge")
    start_judging(page)
    for key in "0123":
        page.keyboard.press(key)
    done = "() => document.querySelector('.progress').innerText === '4 of 60'"
    page.wait_for_function(done)
    page.wait_for_timeout(200)
    assert page.inner_text(".progress") == "4 of 60"
    assert "Graded 3" in page.inner_text("#status")


def test_an_item_is_not_shown_before_its_keys_work(serve, browser) -> None:
    page, held = browser.new_page(), []
    page.set_default_timeout(TIMEOUT)
    page.goto(serve() + "/judge")
    page.route("**/static/judge.js", lambda route: held.append(route))
    page.fill("#name", "ann")
    with page.expect_request("**/static/judge.js"):
        page.keyboard.press("Enter")
    page.wait_for_timeout(100)
    assert page.locator("#work").count() == 0
    held[0].continue_()
    page.wait_for_selector("#work")
    press(page, "3")
    assert page.inner_text(".progress") == "1 of 60"
    page.close()


def test_hostile_texts_are_shown_as_text(serve, open_page, tmp_path) -> None:
    cell = '"' + EVIL.replace('"', '""') + '"'
    (tmp_path / "queue.csv").write_text(
        f"query,id,query_text,title,text,url,x\n"
        f"q,{cell},{cell},{cell},{cell},javascript:alert(1),1\nq,b,,B,,,2\n"
    )
    (tmp_path / "guide.md").write_text(EVIL + "\n\n[a](javascript:alert(1))")
    settings = {"queue": str(tmp_path / "queue.csv"), "guidelines": str(tmp_path / "guide.md")}
    page = open_page(serve(**settings, overlap=1.0) + "/judge")
    assert EVIL in page.inner_text(".prose")
    start_judging(page)
    shown = page.inner_text("main")
    page.fill("#note", EVIL)
    page.keyboard.press("Escape")
    press(page, "3")
    shown += page.inner_text("main")
    assert shown.count(EVIL) >= 2
    assert page.title() == "Judge · rankwright"
    assert page.locator("main img, main script, main a[href^=javascript]").count() == 0


@pytest.mark.parametrize("width, scheme", [(1280, "light"), (400, "dark")])
def test_axe_finds_no_violation(serve, open_page, width, scheme) -> None:
    source = axe_source()
    address = serve()
    viewport = {"width": width, "height": 800}
    page = open_page(address + "/judge", viewport=viewport, color_scheme=scheme)
    check_access(page, source)
    start_judging(page)
    scroll = "() => document.documentElement.scrollWidth"
    for mode in ("grades", "pairs", "magnitudes"):
        page.goto(f"{address}/judge?mode={mode}")
        check_access(page, source)
        assert page.evaluate(scroll) <= width  # nothing sticks out to the side
    press(page, "Enter")
    for path in ("/", "/api", "/judge/mine", "/judge/lead", "/login"):
        page.goto(address + path)
        check_access(page, source)
        assert page.evaluate(scroll) <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_on_error_and_sign_in_pages(
    serve, browser, tmp_path, scheme
) -> None:
    source = axe_source()
    (tmp_path / "tokens").write_text("ann 0123456789abcdef\n")
    address = serve(tokens=Tokens.read(tmp_path / "tokens"))
    page = browser.new_page(color_scheme=scheme)
    page.set_default_timeout(TIMEOUT)
    page.goto(address + "/login")
    for token in ("wrong", "0123456789abcdef"):  # the form, then the form with its fault
        check_access(page, source)
        page.fill("#token", token)
        with page.expect_navigation():
            page.keyboard.press("Enter")
    page.get_by_role("heading", name="Dashboard").wait_for()
    assert page.goto(address + "/nowhere").status == 404
    check_access(page, source)
    page.close()


def check_access(page, source) -> None:
    page.evaluate(source)  # evaluated by the driver: the page's policy forbids injected scripts
    found = page.evaluate("() => axe.run()")["violations"]
    assert [(v["id"], [node["html"] for node in v["nodes"]]) for v in found] == []
