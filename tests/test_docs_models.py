"""The Python of the pages about models runs against a scripted model."""

import asyncio
from dataclasses import fields
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from orchestrator import Options, OrchestratorPlugin
from orchestrator.testing import ModelRequest, ToolCalls, environment
from tests.loopback import served
from tests.openai_api import OpenAIModel
from tests.pages import ROOT, printed, python_of

FUNCTIONS = (ROOT / "docs/how-to/functions.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs/reference/models.md").read_text(encoding="utf-8")
RESPONSES, CHAT = python_of("docs/how-to/models.md")
OWN, WITH_SERVERS, IN_MEMORY = python_of("docs/how-to/functions.md")
RERANKED, READ = python_of("docs/how-to/second-stage.md")
PLAN, PLUGIN = python_of("docs/how-to/model-plan.md")
[TESTING] = python_of("docs/how-to/scripted-model.md")


def _said(asked: ModelRequest) -> object:
    if asked.tools:
        name = next(name for name in asked.tools if "refund_charge" in name)
        return ToolCalls([(name, {"charge": "ch_3PqX"})])
    if asked.wants == "ChosenShape":
        return {"action": "plan", "reasons": ["two parts"], "confidence": 0.9}
    step = {"id": "s1", "task": "refund", "tool": "stripe:refund_charge", "arguments": '{"charge": "ch_3PqX"}'}
    return {"steps": [step]}


async def _printed(code: str, folder: Path) -> str:
    async with OpenAIModel(_said) as model:
        return await asyncio.to_thread(printed, code, folder, environment(model))


@pytest.mark.slow
@pytest.mark.parametrize("code", [RESPONSES, CHAT])
async def test_a_prepass_prints_the_checked_call(code: str, tmp_path: Path) -> None:
    assert await _printed(code, tmp_path) == "stripe:refund_charge {'charge': 'ch_3PqX'}\n"


async def test_the_functions_of_the_page_are_called(tmp_path: Path) -> None:
    shown = FUNCTIONS.partition("prints\n\n```\n")[2].partition("```")[0]
    assert await _printed(OWN, tmp_path) == shown


async def test_functions_stand_beside_servers(tmp_path: Path) -> None:
    assert await _printed(f"{WITH_SERVERS}print(type(router).__name__, type(plugin).__name__)", tmp_path) == (
        "Router OrchestratorPlugin\n"
    )


async def test_functions_in_memory_are_routed(tmp_path: Path) -> None:
    assert await _printed(IN_MEMORY, tmp_path) == "['send_email']\n"


async def test_the_plan_of_the_page_is_made(tmp_path: Path) -> None:
    printed = (await _printed(PLAN, tmp_path)).splitlines()
    assert printed[0] == "plan ('two parts',) scripted"
    assert printed[1] == "s1 stripe:refund_charge {'charge': 'ch_3PqX'} () ()"
    assert printed[2].startswith("scripted ")


async def test_the_reranker_of_the_page_orders_the_first_tools(tmp_path: Path) -> None:
    async def second_first(request: Request) -> JSONResponse:
        texts = (await request.json())["documents"]
        assert texts[0].startswith("refund_charge: ")
        return JSONResponse({"results": [{"index": 1, "relevance_score": 0.9}]})

    with served(Starlette(routes=[Route("/rerank", second_first, methods=["POST"])])) as url:
        code = RERANKED.replace("http://127.0.0.1:8080", url)
        assert await _printed(code, tmp_path) == "quickbooks:list_overdue_invoices ()\n"


async def test_the_reader_of_the_page_reads(tmp_path: Path) -> None:
    assert await _printed(READ, tmp_path) == "('stripe:cancel_subscription',)\n"


async def test_the_scripted_model_of_the_page_starts(tmp_path: Path) -> None:
    assert await _printed(TESTING, tmp_path) == "[]\n"


def test_the_plugin_of_the_page_can_be_made() -> None:
    made: dict[str, object] = {}
    exec(PLUGIN, made)
    assert isinstance(made["plugin"], OrchestratorPlugin)


def test_every_setting_of_a_model_is_on_the_page() -> None:
    named = [field.name for field in fields(Options) if field.name.startswith("model")]
    assert len(named) == 5
    assert all(f"`{name}`" in SETTINGS for name in [*named, "embedder"])
