"""The judging page without a browser: plain forms, tokens, CSRF, escaping, undo, restart."""

from __future__ import annotations

import itertools
import json
import re

import pytest

from rankwright.service.api.security import Tokens

EVIL = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>"
QUEUE = "query,id,query_text,title,text,url,image,x\n" + "".join(
    f'q{q},d{d},salt {q},Title {d},Text of {d},,http://pictures.org/{d}.png,{d}\n'
    for q in range(2)
    for d in range(4)
)  # fmt: skip
TOKENS = f"ann {'a' * 20} judge\nbob {'b' * 20} judge\nweb {'c' * 20} rank\n"


@pytest.fixture
def judge_at(serve, tmp_path):
    """Start a service with this queue; a client that follows redirects."""
    clients = []

    def start(queue: str | None = QUEUE, **settings):
        if queue is not None:
            (tmp_path / "queue.csv").write_text(queue)
            settings["queue"] = str(tmp_path / "queue.csv")
        while clients:  # a restart
            clients.pop().close()
        clients.append(serve(overlap=1.0, **settings))
        clients[-1].http.follow_redirects = True
        return clients[-1]

    return start


def fields(html: str, action: str = "/judge/answer") -> dict[str, str]:
    """The hidden fields of a form."""
    form = re.search(rf'<form[^>]*action="{action}".*?</form>', html, re.DOTALL)
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form[0]))


def start_judging(client, name="ann", mode="grades") -> str:
    """Choose a name and a mode; the page with the first item."""
    form = fields(client.get("/judge").text, "/judge")
    answer = client.post("/judge", data={**form, "name": name, "mode": mode})
    assert answer.status_code == 200, answer.text
    return answer.text


def grade(client, html: str, **more) -> str:
    return client.post("/judge/answer", data={**fields(html), "value": "3", **more}).text


def undo(client, html: str) -> str:
    return client.post("/judge/undo", data=fields(html, "/judge/undo")).text


def done(html: str) -> int:
    return int(re.search(r"<span>(\d+) of \d+</span>", html)[1])


def test_the_demo_needs_nothing(judge_at) -> None:
    client = judge_at(queue=None)
    html = start_judging(client)
    assert "0 of 60" in html
    assert "Krippendorff" in client.get("/judge/lead").text
    assert 'class="series"' in html
    assert done(grade(client, html)) == 1


def test_judging_undoing_and_going_on_after_a_restart(judge_at) -> None:
    client = judge_at()
    html = start_judging(client)
    first = fields(html)["document"]
    html = grade(client, html)
    html = grade(client, html, note="a note")
    assert done(html) == 2
    html = undo(client, undo(client, html))
    assert (done(html), fields(html)["document"]) == (0, first)
    html = grade(client, html)
    cookies = dict(client.cookies)
    client = judge_at()
    client.cookies.update(cookies)
    html = client.get("/judge?mode=grades").text
    assert done(html) == 1
    assert done(undo(client, html)) == 0
    assert client.get("/judge/export/qrels").status_code == 404


def test_a_form_that_is_sent_twice_counts_once(judge_at) -> None:
    client = judge_at()
    html = start_judging(client)
    assert done(grade(client, html)) == 1
    assert done(grade(client, html)) == 1
    assert client.get("/judge/export/csv").text.count("\n") == 2


def test_a_script_gets_the_part_that_changes(judge_at) -> None:
    client = judge_at()
    html = start_judging(client)
    data = {**fields(html), "value": "2"}
    part = client.post("/judge/answer", data=data, headers={"hx-request": "true"}).text
    assert part.startswith('<div id="work">')
    assert "Graded 2: Fairly relevant. 1 of 8 done." in part
    assert "<html" not in part


@pytest.mark.parametrize("mode", ["pairs", "magnitudes"])
def test_the_other_modes(judge_at, mode) -> None:
    client = judge_at()
    html = start_judging(client, mode=mode)
    value = "-1" if mode == "pairs" else "70"
    html = grade(client, grade(client, html, value=value), action="judge", value="0")
    assert done(html) == 2
    assert f",{mode},judge," in client.get("/judge/export/csv").text
    status = client.get(f"/judge/export/letor?mode={mode}").status_code
    assert status == (200 if mode == "magnitudes" else 404)


def test_skipping_and_notes_reach_the_export(judge_at) -> None:
    client = judge_at()
    html = start_judging(client)
    for action in ("later", "skip", "cannot"):
        html = grade(client, html, action=action, note=f"why {action}")
    text = client.get("/judge/export/csv").text
    assert all(f",{action},q" in text and f"why {action}" in text for action in ("skip", "cannot"))


@pytest.mark.parametrize(("mode", "was", "now"), [("grades", "0", "4"), ("pairs", "1", "-1"),
                                                  ("magnitudes", "80", "20")])  # fmt: skip
def test_a_judge_changes_a_judgment(judge_at, mode, was, now) -> None:
    client = judge_at()
    html = start_judging(client, mode=mode)
    assert "Nothing yet" in client.get(f"/judge/mine?mode={mode}").text
    form = {**fields(html), "value": was, "note": "why"}
    html = client.post("/judge/answer", data=form).text
    grade(client, html, value=was)
    mine = client.get(f"/judge/mine?mode={mode}").text
    assert "2 judgments by ann" in mine
    _, first = re.findall(r'href="(/judge\?mode=[^"]*again=[^"]*)"', mine)
    edited = client.get(first.replace("&amp;", "&")).text
    assert "your judgment, to change" in edited
    assert ">why</textarea>" in edited
    marked = re.search(r'value="([-0-9]+)"[^>]*aria-current="true"', edited)
    assert (marked[1] if marked else re.search(r'value="(\d+)" data-arrows', edited)[1]) == was
    again = {**fields(edited), "value": now}
    assert (again["document"], again.get("other")) == (form["document"], form.get("other"))
    assert done(client.post("/judge/answer", data=again).text) == 2
    mine = client.get(f"/judge/mine?mode={mode}").text
    assert "2 judgments by ann" in mine
    newest = re.search(r"<tbody>\s*<tr>(.*?)</tr>", mine, re.DOTALL)[1]
    assert again["document"].replace("d", "Title ") in newest
    assert "your judgment, to change" not in client.get(first.replace("&amp;", "&")).text
    assert client.get("/judge/mine?page=x").status_code == 422


def test_two_judges_get_kappa_and_their_differences(judge_at) -> None:
    client = judge_at()
    for name, value in (("ann", "4"), ("bob", "0")):
        html = start_judging(client, name)
        for _ in range(8):
            html = grade(client, html, value=value)
        assert "All done" in html
        assert "bob <b>" not in html  # judges see their own progress only
        assert "agreement" not in html
    html = client.get("/judge/lead?mode=grades").text
    assert "Cohen" in html
    assert '<strong id="agreement-value">0.000 <small>weak</small></strong>' in html
    assert "ann <b>4</b>, bob <b>0</b>" in html
    assert client.get("/judge/export/qrels").text.splitlines()[0] == "q0 0 d0 2"


def test_a_judge_who_is_deleted_is_gone_from_the_page_at_once(judge_at) -> None:
    client = judge_at()
    grade(client, start_judging(client, "ann"))
    grade(client, start_judging(client, "bob"))
    assert "2 judges" in client.get("/judge/lead?mode=grades").text
    entries = [json.loads(line) for line in client.get("/v1/log").text.splitlines()]
    assert [entry["user"] for entry in entries] == ["ann", "bob"]
    assert {entry["kind"] for entry in entries} == {"judgment"}
    assert client.delete("/v1/log?user=bob").json()["deleted"] == 1
    assert "1 judge," in client.get("/judge/lead?mode=grades").text
    assert "bob" not in client.get("/judge/export/csv").text


# What is shown is text.


def test_everything_that_people_write_is_shown_as_text(judge_at, tmp_path) -> None:
    cell = '"' + EVIL.replace('"', '""') + '"'
    (tmp_path / "guide.md").write_text(EVIL)
    queue = f"query,id,query_text,title,text,url,image,x\nq{f',{cell}' * 6},1\n"
    client = judge_at(queue, guidelines=str(tmp_path / "guide.md"), images=True)
    html = start_judging(client)
    assert "alert(" in html
    assert "<script>alert" not in html
    assert "<img" not in html
    form = fields(html.replace("&#39;", "'").replace("&#34;", '"'))
    assert form["query"] == "q"
    other = client.post("/judge", data={**fields(html, "/judge/undo"), "name": EVIL})
    assert other.status_code == 422
    assert "<script>" not in other.text


def test_urls_are_links_only_if_they_lead_to_the_web(judge_at) -> None:
    queue = "query,id,url,x\nq,a,javascript:alert(1),1\n"
    assert 'href="javascript' not in start_judging(judge_at(queue))
    assert 'href="https://a.org/"' in start_judging(
        judge_at(queue.replace("javascript:alert(1)", "https://a.org/"))
    )


def test_pictures_are_off_unless_they_are_asked_for(judge_at) -> None:
    assert "pictures.org" not in start_judging(judge_at())
    client = judge_at(images=True)
    html = start_judging(client)
    assert '<img src="http://pictures.org/' in html
    policy = client.get("/judge").headers["content-security-policy"]
    assert "img-src 'self' data: https: http:;" in policy


def test_pages_bring_no_inline_script_or_style(judge_at) -> None:
    client = judge_at(queue=None)
    for html in (client.get("/judge").text, start_judging(client), client.get("/").text):
        assert not re.search(r"<script(?![^>]*\bsrc=)", html)
        assert not re.search(r"<style|\sstyle=|\son\w+=", html)


# Who may judge.


def test_forms_without_a_csrf_token_are_refused(judge_at) -> None:
    client = judge_at()
    html = start_judging(client)
    form = fields(html)
    for path, data in (
        ("/judge", {"name": "ann"}),
        ("/judge/answer", {**form, "value": "1", "csrf_token": ""}),
        ("/judge/answer", {**form, "value": "1", "csrf_token": "0" * 64}),
        ("/judge/undo", {"key": "12345678"}),
    ):
        assert client.post(path, data=data).status_code == 403
    assert done(client.get("/judge?mode=grades").text) == 0


def test_with_tokens_the_token_says_who_judges(judge_at, tmp_path) -> None:
    (tmp_path / "tokens").write_text(TOKENS)
    client = judge_at(tokens=Tokens.read(tmp_path / "tokens"))
    assert client.get("/judge", follow_redirects=False).status_code in (302, 303)
    assert client.get("/judge/export/csv", follow_redirects=False).status_code in (302, 303)
    client.post("/login", data={"token": "a" * 20})
    html = start_judging(client, name="bob")
    assert "bob" not in html
    html = grade(client, html)
    assert ",ann,grades,judge," in client.get("/judge/export/csv").text
    client.cookies.clear()
    client.post("/login", data={"token": "c" * 20})
    for path in ("/judge", "/judge?mode=grades", "/judge/export/csv"):
        assert client.get(path).status_code == 403


@pytest.mark.parametrize(
    "change, status",
    [
        ({"value": "9"}, 422), ({"value": "x"}, 422), ({"value": "nan"}, 422),
        ({"mode": "stars"}, 422), ({"action": "delete"}, 422), ({"document": "zz"}, 422),
        ({"key": ""}, 422), ({"key": "../../etc"}, 422), ({"query": "q9"}, 422),
    ],
)  # fmt: skip
def test_forms_that_mean_nothing_are_refused(judge_at, change, status) -> None:
    client = judge_at()
    html = start_judging(client)
    answer = client.post("/judge/answer", data={**fields(html), "value": "3", **change})
    assert answer.status_code == status
    assert done(client.get("/judge?mode=grades").text) == 0


def test_nothing_to_undo_and_unknown_exports_say_so(judge_at) -> None:
    client = judge_at()
    html = start_judging(client)
    answer = client.post("/judge/undo", data=fields(html, "/judge/undo"))
    assert answer.status_code == 409
    assert "no judgment of grades to take back" in answer.text
    assert client.get("/judge/export/xml").status_code == 404
    assert client.get("/judge/export/..%2f..%2fetc").status_code == 404
    assert client.get("/judge?mode=stars").status_code == 422
    client.cookies.delete("rankwright_judge")
    assert client.post("/judge/answer", data={**fields(html), "value": "3"}).status_code == 409


def test_a_query_is_judged_to_its_end_before_the_next_one(judge_at) -> None:
    client = judge_at()
    html, queries = start_judging(client), []
    for _ in range(8):
        queries.append(fields(html)["query"])
        html = grade(client, html)
    assert len([1 for a, b in itertools.pairwise(queries) if a != b]) == len(set(queries)) - 1


# From judging to serving.


def test_the_judged_model_is_served_with_the_features_of_the_queue(judge_at) -> None:
    client = judge_at()
    html = start_judging(client)
    button = fields(html, "/judge/undo") | {"sure": "yes"}
    assert client.post("/judge/model", data=button).status_code == 409
    for _ in range(8):  # the higher x, the better
        document = fields(html)["document"]
        html = grade(client, html, value=document[1:])
    assert "Serve this model" not in html
    assert "Serve this model" not in client.get("/judge/lead?mode=grades").text
    assert "Serve this model" in client.get("/").text
    before = client.get("/v1/models").json()["models"]
    assert client.post("/judge/model", data=button | {"sure": ""}).status_code == 422
    assert client.get("/v1/models").json()["models"] == before
    page = client.post("/judge/model", data=button)
    assert page.url.path == "/"
    model = next(m for m in client.get("/v1/models").json()["models"] if m["active"])
    assert (model["name"], model["features"]) == ("judged-grades", ["x"])
    items = [{"id": str(x), "features": {"x": x}} for x in (1, 3, 2)]
    answer = client.post("/v1/rank", json={"query": "salt", "items": items}).json()
    assert [item["id"] for item in answer["items"]] == ["3", "2", "1"]
    first = model["version"]
    undo = fields(client.get("/judge?mode=grades").text, "/judge/undo")
    assert client.post("/judge/undo", data=undo).status_code == 200
    client.post("/judge/model", data=button)
    assert "Roll back" in client.get("/").text
    assert client.post("/models/rollback", data=button | {"sure": ""}).status_code == 422
    client.post("/models/rollback", data=button)
    assert [m["version"] for m in client.get("/v1/models").json()["models"] if m["active"]] == [
        first
    ]


def test_the_start_page_does_not_name_other_judges(judge_at) -> None:
    client = judge_at()
    grade(client, start_judging(client))
    other = client.get("/judge").text
    assert "Judges so far" not in other
