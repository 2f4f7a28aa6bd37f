"""The pages in a real browser: reading, typing, keyboard, narrow screens and accessibility."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from playwright.async_api import Browser, Page, Response, expect

from orchestrator import RunRequest, StepStatus
from tests.catalogues import EXAMPLES
from tests.command_line import program
from tests.furnished import HOSTILE, furnish, ui
from tests.runner import Runner
from tests.servers.real import NODE_MODULES
from tests.temporal import until_step

pytestmark = pytest.mark.slow
TASK = "book an appointment for the patient Mrs Lee and post it to slack"
PATHS = {
    "ask": "/",
    "decision": f"/?task={quote(TASK)}",
    "none": "/?task=sing+me+a+song+about+the+sea",
    "tools": "/tools?q=weather",
    "catalogue": "/catalogue",
    "compare": "/compare?first=refund+a+customer&second=open+a+bug",
    "tool": "/tools/ehr%3Abook_appointment",
    "hostile": f"/tools/{quote(HOSTILE.key, safe='')}",
    "servers": "/servers",
    "experience": "/experience",
    "runs": "/runs",
    "replay": "/replay",
    "unknown": "/tools/nobody%3Anothing",
}
expect.set_options(timeout=60_000)  # how long a slow machine may take; nothing waits that long on another
SCREENS = {"light": (1100, "light"), "dark": (1100, "dark"), "narrow": (390, "light")}


@asynccontextmanager
async def looking(browser: Browser, *links: str, screen: str = "light", **settings: Any) -> AsyncIterator[Page]:
    """Return the page of a visitor who has opened the links. It fails for an error in its console, and for any other
    host.
    """
    width, scheme = SCREENS[screen]
    size: Any = {"width": width, "height": 800}
    context = await browser.new_context(viewport=size, color_scheme=scheme, **settings)  # type: ignore[arg-type]
    page, said, asked = await context.new_page(), list[str](), set[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(f"dialog {dialog.message}"))
    page.on("request", lambda request: asked.add(urlsplit(request.url).hostname or ""))
    page.on("response", lambda response: said.extend(_missing(response)))
    for link in links:
        await page.goto(link)
    yield page
    await context.close()
    assert [text for text in said if not text.startswith("Failed to load resource")] == []
    assert asked <= {"127.0.0.1", ""}


def _missing(response: Response) -> list[str]:
    """Return the browser's own message without the address. The whole page may be an error's page."""
    fine = response.status < 400 or response.request.is_navigation_request()
    return [] if fine else [f"{response.status} {response.url}"]


async def flaws(page: Page) -> list[str]:
    """Return the faults that axe finds in the page, without trifles."""
    await page.evaluate((NODE_MODULES / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    found = await page.evaluate("axe.run()")
    return [
        f"{one['id']}: {[node['html'] for node in one['nodes']]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical", "moderate")
    ]


async def hidden_columns(page: Page) -> int:
    """How many parts of the page are cut off until somebody scrolls them sideways."""
    parts = "[...document.querySelectorAll('.scroll')].filter(part => part.scrollWidth > part.clientWidth).length"
    return int(await page.evaluate(parts))


async def too_wide(page: Page) -> bool:
    return bool(await page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@pytest.fixture(scope="session")
async def link(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The link to the pages of a furnished folder, without a Temporal server."""
    folder = tmp_path_factory.mktemp("ui")
    await furnish(folder, rounds=3)
    async with ui(folder, "--config", "mcp.json", "--address", "127.0.0.1:9") as (found, _):
        yield found


def at(link: str, path: str) -> str:
    return link.partition("/?")[0] + path


@pytest.mark.timeout(400)  # axe reads eleven pages
@pytest.mark.parametrize("screen", SCREENS)
async def test_every_page_is_read_by_everybody_on_every_screen(browser: Browser, link: str, screen: str) -> None:
    async with looking(browser, link, screen=screen) as page:
        for name, path in PATHS.items():
            await page.goto(at(link, path))
            assert await page.locator("h1").count() == 1, name
            assert (name, await too_wide(page)) == (name, False)
            if screen == "narrow":
                assert (name, await hidden_columns(page)) == (name, 0)
            assert (name, [] if screen == "narrow" else await flaws(page)) == (name, [])


async def test_a_task_is_typed_and_its_answer_followed_by_keyboard_alone(browser: Browser, link: str) -> None:
    async with looking(browser, link, java_script_enabled=False) as page:
        field = page.locator("[autofocus]")
        await expect(field).to_be_focused()
        await page.keyboard.type("refund the customer who paid twice")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=2)).to_have_text("stripe:refund_charge")
        await expect(page.get_by_text("Confidence of the keyword search")).to_be_visible()
        await expect(field).to_be_focused()  # the browser moves the focus only after it has drawn the page
        for _ in range(3):  # from the field over the button and the link to compare to the answer
            await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("refund_charge")
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()


async def test_servers_are_connected_and_a_broken_one_says_why(browser: Browser, link: str) -> None:
    async with looking(browser, at(link, "/servers"), link, at(link, "/servers")) as page:
        await page.get_by_role("button", name="Connect each now").click()
        await expect(page.get_by_role("row", name="quick ready")).to_be_visible()
        await expect(page.get_by_role("row", name="broken")).to_contain_text("/nowhere/mcp-server")


async def test_a_replay_shows_what_a_pipeline_would_change(browser: Browser, link: str) -> None:
    async with looking(browser, link, at(link, "/replay")) as page:
        await page.get_by_label("Pipeline").select_option("koi")
        await page.get_by_role("button", name="Replay").click()
        await expect(page.locator(".figures")).to_contain_text("21")
        await expect(page.get_by_text("Means before and after")).to_be_visible()


async def test_experience_shows_what_was_learnt_and_what_was_wrong(browser: Browser, link: str) -> None:
    async with looking(browser, link, at(link, "/experience")) as page:
        await expect(page.get_by_role("group", name="Used together")).to_contain_text("snowflake:run_query")
        await expect(page.get_by_role("group", name="Where routing missed")).to_contain_text("crash in release 100")
        await expect(page.get_by_role("group", name="Failed calls")).to_contain_text("apollo figures of week 100")
        await expect(page.get_by_role("group", name="Totals by week")).to_contain_text("2026-W39")


async def test_a_catalogue_is_measured_by_the_own_words_of_its_tools(browser: Browser, link: str) -> None:
    async with looking(browser, link, at(link, "/catalogue")) as page:
        await page.get_by_role("button", name="Measure").click()
        await expect(page.get_by_role("button", name="Measure again")).to_be_visible()
        await expect(page.locator("#own ~ p strong")).to_contain_text(re.compile(r"^\d+ of \d+ tools"))
        assert await flaws(page) == []


async def test_a_decision_in_a_file_is_read_by_everybody(browser: Browser, tmp_path: Path) -> None:
    written = tmp_path / "decision.html"
    catalogue = ("--catalogue", EXAMPLES / "tools.jsonl")
    ran = await asyncio.to_thread(program, "explain", TASK, *map(str, catalogue), "--html", str(written))
    assert ran.returncode == 0, ran.stderr
    async with looking(browser, written.as_uri(), screen="narrow") as page:
        await expect(page.get_by_role("heading", level=2)).to_contain_text("ehr:book_appointment")
        assert (await flaws(page), await too_wide(page)) == ([], False)


async def test_runs_that_wait_are_approved_and_refused_on_their_page(
    browser: Browser, runner: Runner, temporal_address: str, tmp_path: Path
) -> None:
    task = "Delete the file a.txt and add a note titled 'x'"
    own, other = [
        await runner.begin("toolroute.run", RunRequest(task=task, tenant=tenant)) for tenant in ("org:1", "org:10")
    ]
    for step in ("s1", "s2"):
        await until_step(own, step, StepStatus.NEEDS_APPROVAL)
    await furnish(tmp_path, rounds=0)
    async with ui(tmp_path, "--address", temporal_address) as (link, process), looking(browser, link) as page:
        async with asyncio.timeout(120):
            while not await page.get_by_role("link", name=own.id).count():  # Lists lag behind a little.
                await page.goto(at(link, "/runs"))
        assert await page.get_by_role("link", name=other.id).count() == 0  # of another tenant
        await page.get_by_role("link", name=own.id).click()
        assert (await flaws(page), await too_wide(page)) == ([], False)
        await page.get_by_role("button", name="Refuse s2").click()
        await page.get_by_role("button", name="Approve s1").click()
        result = await own.result()
        assert [step["status"] for step in result["steps"]] == ["done", "refused"]
        await page.goto(at(link, "/runs?all=1"))
        await page.get_by_role("link", name=own.id).click()
        await expect(page.get_by_role("heading", name="Result")).to_be_visible()
        await expect(page.get_by_text("Approved by")).to_have_count(1)
        await expect(page.get_by_text("Rejected by")).to_have_count(1)
        await page.locator("summary").first.click()
        await expect(page.get_by_text("delete_file a.txt", exact=True)).to_be_visible()
        assert (await flaws(page), await too_wide(page)) == ([], False)
        await page.goto(at(link, f"/runs/{other.id}"))
        await expect(page.get_by_text(f"has no run '{other.id}'")).to_be_visible()
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
    await other.terminate()
