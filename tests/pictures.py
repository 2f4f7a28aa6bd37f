"""Make the pictures of docs/how-to/ui.md: `python -m tests.pictures`."""

import asyncio
import tempfile
from pathlib import Path
from uuid import uuid4

from playwright.async_api import Page
from temporalio.client import Client

from orchestrator import RunRequest, StepStatus
from orchestrator.temporal.client.devserver import dev_server
from tests.browser import chromium
from tests.furnished import furnish, ui
from tests.running import TENANT, plugin_over
from tests.temporal import until_step, working

FOLDER = Path(__file__).parents[1] / "docs" / "ui"
RUN = "toolroute-run-5d1c2f0a9b7e"
PAGES = {
    "ask": "/?task=book+an+appointment+for+the+patient+Mrs+Lee+and+post+it+to+slack",
    "tool": "/tools/ehr%3Abook_appointment",
    "catalogue": "/catalogue",
    "servers": "/servers",
    "experience": "/experience",
    "run": f"/runs/{RUN}",
    "replay": "/replay",
}
_HEIGHT = {"ask": 1050}
"""Pixels of a page that its picture shows, else 800."""


async def main() -> None:
    folder = Path(tempfile.mkdtemp())
    await furnish(folder, rounds=12)
    queue = uuid4().hex
    async with dev_server(say=print) as address:
        client = await Client.connect(address, plugins=[plugin_over()])
        async with working(client, queue):
            request = RunRequest(task="Delete the file a.txt and add a note titled 'x'", tenant=TENANT)
            handle = await client.start_workflow("toolroute.run", request, id=RUN, task_queue=queue)
            await until_step(handle, "s2", StepStatus.NEEDS_APPROVAL)
            async with ui(folder, "--config", "mcp.json", "--address", address) as (link, _), chromium() as browser:
                page = await browser.new_page(viewport={"width": 1000, "height": 600}, color_scheme="light")
                await page.goto(link)
                for name, path in PAGES.items():
                    for _ in range(2):  # The first time is of what is read once.
                        await page.goto(link.partition("/?")[0] + path)
                    await picture(page, name)
            await handle.terminate()


async def picture(page: Page, name: str) -> None:
    if name in ("catalogue", "servers", "replay"):
        await page.get_by_label("Pipeline").select_option("fabric") if name == "replay" else None
        await page.locator("main button").first.click()
        await page.locator("table, .figures").first.wait_for()
        await page.get_by_text("Measure again").wait_for() if name == "catalogue" else None
    height = min(_HEIGHT.get(name, 800), await page.evaluate("document.documentElement.scrollHeight"))
    await page.screenshot(
        path=FOLDER / f"{name}.png", full_page=True, clip={"x": 0, "y": 0, "width": 1000, "height": height}
    )
    assert (FOLDER / f"{name}.png").stat().st_size < 150_000, name


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(main())
