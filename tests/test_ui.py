"""The pages of `toolroute ui`: access, changes, and texts that are never more than a text."""

import html
import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import numpy as np
import pytest

from orchestrator import Options, Router, StepStatus
from tests.catalogues import sample, tool, write_tools
from tests.command_line import Run
from tests.furnished import HOSTILE
from tests.runner import Runner
from tests.temporal import until_step
from tests.ui_pages import base_of, started, visiting, visitor_of

GET = [
    "/",
    "/?task=weather+of+Mars",
    "/tools",
    f"/tools/{quote(HOSTILE.key, safe='')}",
    "/servers",
    "/experience",
    "/runs",
    "/replay",
    "/catalogue",
    "/compare?first=weather+of+Mars&second=refund",
]
CATALOGUE = ("--catalogue", "tools.jsonl", "--organization", "1")
POST = ["/decision", "/compare", "/catalogue", "/servers", "/runs/some-run", "/replay"]


def token_of(link: str) -> str:
    return link.partition("=")[2]


@pytest.fixture(scope="module")
async def link(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The link that `toolroute ui` prints, over the sample catalogue and a hostile tool."""
    folder = tmp_path_factory.mktemp("pages")
    write_tools(folder / "tools.jsonl", [*sample().tools, HOSTILE])
    async with started(folder, *CATALOGUE, "--address", "<nowhere>:1") as (link, _):
        yield link


@pytest.fixture
async def visitor(link: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A visitor who has opened the link."""
    async with visitor_of(link) as browser:
        yield browser


async def form_token(visitor: httpx2.AsyncClient, path: str = "/") -> str:
    """What the forms of a page send, which no page of another site knows."""
    tokens = re.findall(r'name="form" value="(\w+)"', (await visitor.get(path)).text)
    return str(tokens[0])


async def page_of(visitor: httpx2.AsyncClient, decision: Any) -> httpx2.Response:
    """The page of a Decision that was kept in a file."""
    text = decision if isinstance(decision, str) else json.dumps(decision)
    files = {"decision": ("kept.json", text)}
    return await visitor.post("/decision", data={"form": await form_token(visitor)}, files=files)


@pytest.fixture(scope="module")
async def decision() -> dict[str, Any]:
    async with Router(sample()) as router:
        return (await router.route("refund charge ch_3PqX")).to_json()


async def test_nobody_sees_a_page_without_the_links_token(link: str) -> None:
    async with visiting(link) as stranger:
        for path in [*GET, "/static/style.css", "/?token=another", f"/tools?token={token_of(link)[:-1]}"]:
            answer = await stranger.get(path)
            assert (answer.status_code, "toolroute ui" in answer.text, len(answer.cookies)) == (401, True, 0), path
        for path in POST:
            assert (await stranger.post(path)).status_code == 401, path


async def test_the_token_becomes_a_cookie(link: str) -> None:
    token, port = token_of(link), httpx2.URL(link).port
    async with visiting(link) as visitor:
        answer = await visitor.get(f"/tools?token={token}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/tools")
        assert answer.headers["set-cookie"] == f"toolroute_{port}={token}; HttpOnly; Path=/; SameSite=strict"
        assert (await visitor.get("/tools")).status_code == 200
        for path, leads_to in {"//evil.example/": "/evil.example/", "/runs/a%3Fb": "/runs/a%3Fb"}.items():
            assert (await visitor.get(f"{base_of(link)}{path}?token={token}")).headers["location"] == leads_to


async def test_another_host_name_gets_nothing(link: str) -> None:
    async with visiting(link, headers={"host": "rebound.example:4000"}) as visitor:
        answer = await visitor.get(link)
        assert (answer.status_code, len(answer.cookies)) == (400, 0)


@pytest.mark.parametrize("path", POST)
async def test_a_form_of_another_page_changes_nothing(visitor: httpx2.AsyncClient, path: str) -> None:
    for form in ({}, {"form": "guessed"}):
        answer = await visitor.post(path, data={**form, "word": "approve", "step": "s1"})
        assert (answer.status_code, "Load the page again" in answer.text) == (403, True)


@pytest.mark.parametrize("path", GET)
async def test_what_others_wrote_is_only_text(visitor: httpx2.AsyncClient, path: str) -> None:
    answer = await visitor.get(path)
    assert answer.status_code == 200
    assert not re.findall(r"<script|<img|<[^>]*\s(?:on\w+|style)=|(?:href|src|action)=\"(?!/|#)", answer.text)
    rules = answer.headers["content-security-policy"]
    assert rules.startswith("default-src 'none'; style-src 'self';")
    assert "unsafe" not in rules
    assert "script-src" not in rules


async def test_a_task_is_answered_with_the_tools_that_fit(visitor: httpx2.AsyncClient) -> None:
    page = (await visitor.get("/", params={"task": "refund charge ch_3PqX"})).text
    [answer] = re.findall(r'<h2 id="answer">.*?</h2>', page, re.DOTALL)
    assert ">stripe:refund_charge<" in answer
    assert re.search(
        r"Confidence of the keyword search: \d\d%. It is enough from 70% on. Keyword search was enough.", page
    )
    assert "27,9" in page
    [matches] = re.findall(r'<ol class="matches">.*?</ol>', page, re.DOTALL)
    assert "Give a customer their money back" in matches
    shown = [float(number) for number in re.findall(r"<strong>probability</strong>.*?(\d\.\d\d)", matches, re.DOTALL)]
    assert shown == sorted(shown, reverse=True)


async def test_what_cannot_be_shown_says_why(visitor: httpx2.AsyncClient) -> None:
    unknown = await visitor.get("/tools/nobody:nothing")
    assert (unknown.status_code, "The catalogue of org:1 does not contain it" in unknown.text) == (404, True)
    assert "no Temporal server answers at &lt;nowhere&gt;" in (await visitor.get("/runs")).text
    assert (await visitor.get("/runs/some-run")).status_code == 503


async def test_a_kept_decision_is_shown_and_no_other_file(
    visitor: httpx2.AsyncClient, decision: dict[str, Any]
) -> None:
    assert ">stripe:refund_charge<" in (await page_of(visitor, decision)).text
    assert ">stripe:refund_charge<" in (await page_of(visitor, {"decision": decision, "plan": {}})).text
    halved = await page_of(visitor, {**decision, "query": "a\ud800b", "recommended": ["s:\ud800"]})
    assert (halved.status_code, ">ab<" in halved.text) == (200, True)
    for wrong in ("[1]", "no JSON", {**decision, "confidence": "<b>high</b>"}):
        answer = await page_of(visitor, wrong)
        assert (answer.status_code, "explain -o json" in answer.text, "<b>" in answer.text) == (400, True, False)


async def test_a_catalogue_that_is_no_path_is_refused(visitor: httpx2.AsyncClient) -> None:
    token = await form_token(visitor, "/replay")
    for named in ("a\0b", "a" * 5_000, "/dev/zero"):
        answer = await visitor.post("/replay", data={"form": token, "pipeline": "default", "catalogue": named})
        assert answer.status_code == 400, named[:10]


async def test_rejected_tools_share_a_line_per_reason(visitor: httpx2.AsyncClient, decision: dict[str, Any]) -> None:
    rejected = [{"tool": f"s:tool_{n}", "why": f"score 0.0{n}, behind the 10 matches"} for n in range(9)]
    text = (await page_of(visitor, {**decision, "rejected": rejected})).text
    assert (text.count("behind the 10 matches"), "s:tool_8<" in text) == (1, True)


async def test_a_decision_shows_the_task_in_full_and_its_clauses(visitor: httpx2.AsyncClient) -> None:
    task = "refund the customer who paid twice, then post the amount to slack " + "and thank them " * 20
    page = html.unescape((await visitor.get("/", params={"task": task})).text)
    assert f'<blockquote class="asked">{task.strip()}</blockquote>' in page
    [clauses] = re.findall(r'<ol class="clauses">(.*?)</ol>', page, re.DOTALL)
    assert (clauses.count("<li>") > 1, "stripe:refund_charge" in clauses) == (True, True)


async def test_two_wordings_and_two_files_are_compared(visitor: httpx2.AsyncClient, decision: dict[str, Any]) -> None:
    asked = {"first": "refund charge ch_3PqX", "second": "open a bug for the crash"}
    page = (await visitor.get("/compare", params=asked)).text
    assert ("only in the second" in page, "only in the first" in page) == (True, True)
    [token] = set(re.findall(r'name="form" value="(\w+)"', page))
    kept = {**decision, "matches": decision["matches"][1:]}

    async def compared(*named: str, text: str = json.dumps(kept)) -> httpx2.Response:
        files = {name: (f"{name}.json", text) for name in named}
        return await visitor.post("/compare", data={"form": token}, files=files)

    assert "only in the first" not in (now := (await compared("first")).text)
    assert "only in the second" in now
    assert "only in the second" not in (await compared("first", "second")).text
    assert (await compared("first", text="no JSON")).status_code == 400


async def test_a_catalogue_of_thousands_is_paged_and_searched(tmp_path: Path) -> None:
    tools = [tool(f"server{n % 1_500}:do_{n // 1_500}_{n}", "It does.") for n in range(13_000)]
    write_tools(tmp_path / "tools.jsonl", [*tools, tool("mail:do-0-0")])
    async with started(tmp_path, *CATALOGUE) as (link, _), visitor_of(link) as visitor:

        async def shown(path: str) -> str:
            answer = await visitor.get(path)
            assert (answer.status_code, len(answer.content) < 60_000) == (200, True), path
            return html.unescape(answer.text)

        assert "1 to 50 of 13,001 tools" in (first := await shown("/tools"))
        assert 'href="/tools?page=2"' in first
        assert "12,951 to 13,000 of 13,001 tools" in await shown("/tools?page=260")
        assert "13,001 to 13,001 of 13,001 tools" in await shown("/tools?page=99999999")
        assert "1 to 50 of 13,001 tools" in await shown("/tools?page=-1")
        assert '/tools?q=it+does&page=2"' in await shown("/tools?q=it+does")
        assert "9 tools" in await shown("/tools?server=server7")
        assert "1 to 50 of 1,501 servers" in await shown("/servers")
        assert "111 servers" in await shown("/servers?q=server12")
        assert "1 tool" in await shown("/tools?q=do-0-0")
        overview = await shown("/catalogue")
        assert ("13,001" in overview, "2 tools of different servers share 1 names" in overview) == (True, True)


async def test_of_a_decision_with_endless_lists_the_beginning_is_shown(
    visitor: httpx2.AsyncClient, decision: dict[str, Any]
) -> None:
    endless = [{**decision["matches"][0], "tool": f"s:tool_{number}"} for number in range(20_000)]
    keys = [match["tool"] for match in endless]
    endless_lists = {"matches": endless, "recommended": keys, "warnings": keys}
    text = (await page_of(visitor, {**decision, **endless_lists})).text
    assert ("s:tool_199<" in text, "s:tool_200<" in text, "19,800 more matches are not shown" in text) == (
        True,
        False,
        True,
    )


async def test_the_gate_is_shown_for_every_pipeline(visitor: httpx2.AsyncClient, decision: dict[str, Any]) -> None:
    async def shown(**otherwise: Any) -> str:
        return (await page_of(visitor, {**decision, **otherwise})).text

    gate = ("keyword search was enough", "semantic search ran as well", "no semantic search ran")
    pages = [await shown(), await shown(semantic_ran=True), await shown(gate_confidence=0.1)]
    assert [[text in page for text in gate] for page in pages] == np.eye(3).tolist()
    assert "found none of the matches" not in pages[0]
    assert "found none of the matches" in await shown(timings_ms={"by_graph": 1.0, "semantic": 1.0})


async def test_a_broken_page_leaves_the_others(caplog: Any) -> None:
    """The fault is put in here, because no page is known to fail."""
    from orchestrator.ui.app import make_app
    from orchestrator.ui.scope import Scope

    async def broken() -> Any:
        raise RuntimeError("a secret")

    async with Router(sample()) as router:
        app = make_app(Scope(router=router, tenant="org:1", options=Options(), run_client=broken), "t")
        transport = httpx2.ASGITransport(app=app)
        async with visitor_of("http://127.0.0.1:4000/?token=t", transport=transport) as visitor:
            answer = await visitor.get("/runs")
            assert (answer.status_code, "RuntimeError" in answer.text, "a secret" in answer.text) == (500, True, False)
            assert (answer.headers["cache-control"], "a secret" in caplog.text) == ("no-store", True)
            assert (await visitor.get("/tools")).status_code == 200


async def test_a_run_shows_the_exact_call_until_it_ends(runner: Runner, temporal_address: str, tmp_path: Path) -> None:
    task = "Delete the file a.txt and add a note titled 'Grüße <b>\u200b'"
    handle = await runner.start(task, name="a?b%2F<b>&amp;", approve="changes")
    await until_step(handle, "s2", StepStatus.NEEDS_APPROVAL)
    write_tools(tmp_path / "tools.jsonl", sample().tools)

    async with (
        started(tmp_path, *CATALOGUE, "--address", temporal_address) as (link, _),
        visitor_of(link) as visitor,
    ):
        where = f"/runs/{quote(handle.id, safe='')}"
        page = html.unescape((await visitor.get(where)).text)
        assert '"title": "Grüße <b>\\u200b"' in page
        fields = {name: re.findall(rf'name="{name}" value="(\w+)"', page)[0] for name in ("form", "step", "digest")}
        answer = await visitor.post(where, data={**fields, "word": "approve"})
        assert (answer.status_code, answer.headers.get("location")) == (303, where)
        await until_step(handle, "s1", StepStatus.DONE)
        await handle.terminate()
        page = (await visitor.get(where)).text
        assert ("terminated" in page, "needs approval" in page, "<button" in page) == (True, True, False)


def test_explain_writes_a_page_that_is_one_file(toolroute: Run, tmp_path: Path) -> None:
    lines = json.dumps({"server": HOSTILE.server, "name": HOSTILE.name, "description": HOSTILE.description})
    (tmp_path / "tools.jsonl").write_text(lines)
    command = ("explain", "javascript alert: the weather of Mars", "--catalogue", tmp_path / "tools.jsonl", "--html")
    ran = toolroute(*command, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert (ran.exit_code, "&lt;img src=x onerror=alert(1)&gt;" in page) == (0, True)
    assert not re.findall(r"<script|<img|<link|<a |<[^>]*\s(?:src|style)=|url\(|@import", page)
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in page
    ran = toolroute(*command, tmp_path / "no" / "a")
    assert (ran.exit_code, "--html" in ran.stderr) == (2, True)
