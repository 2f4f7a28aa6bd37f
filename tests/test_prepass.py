"""A Decision before another program's model call: the real client, over HTTP, to a server with OpenAI's rules."""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Catalogue, Options, RouteHint, Router, RouteRequest, Tool
from orchestrator.index.embedders.endpoint import OpenAIEmbedder
from orchestrator.testing import ScriptedModel, ToolCalls
from tests.catalogues import KEYWORD_ALONE, sample
from tests.decisions import READ, decision, schema
from tests.scripted import asking
from tests.stores import shipped

EXAMPLES = Path(__file__).parents[1] / "examples" / "tools.jsonl"
AWKWARD = [
    Tool(server="my server", name="näme.with/odd:signs", input_schema=schema("a", a={"type": "string"})),
    Tool(server="s" * 60, name="t" * 60, description="x" * 3_000),
    Tool(server="any", name="of", input_schema={"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
    Tool(server="none", name="at_all", input_schema={"type": "object", "additionalProperties": False}),
    Tool(server="typed", name="oddly", input_schema={"properties": {"a": {"type": ["string", "null"]}}}),
    Tool(server="typed", name="wrongly", input_schema=schema(a={"type": "any"}, b={"type": "array"}, c="text")),
    Tool(server="named", name="oddly", input_schema=schema("$top", **{"$top": {"type": "integer"}})),
]


def test_responses_take_the_tools_and_the_call_leads_back(model: ScriptedModel) -> None:
    found = decision("Read the file a.txt", [READ, *AWKWARD])
    names = [tool["name"] for tool in found.tools("openai")]
    calls = ToolCalls([(names[0], {"path": "a.txt"}), (names[1], {"a": "b"})])
    output = asking(model, calls).responses.create(model="m", input=found.query, tools=found.tools("openai")).output
    resolved = [found.resolve(item) for item in output]
    assert [(call.tool.key, call.arguments) for call in resolved] == [
        ("files:read_file", {"path": "a.txt"}),
        (AWKWARD[0].key, {"a": "b"}),
    ]
    assert [call.call_id for call in resolved] == ["call_0", "call_1"]
    assert model.asked[0].tools == names


def test_chat_completions_take_their_own_shape(model: ScriptedModel) -> None:
    found = decision("Read the file a.txt", [READ, *AWKWARD])
    tools: Any = found.tools("openai-chat")
    calls = ToolCalls([(tools[0]["function"]["name"], {"path": "a.txt"})])
    messages: Any = [{"role": "user", "content": found.query}]
    reply = asking(model, calls).chat.completions.create(model="m", messages=messages, tools=tools)
    (item,) = reply.choices[0].message.tool_calls or ()
    assert found.resolve(item).arguments == {"path": "a.txt"}


def test_every_tool_of_a_large_real_catalogue_is_accepted(model: ScriptedModel, bench: Path) -> None:
    tools = list(Catalogue.read(bench / "mcp_catalog_docker"))[:1_000]
    asked = asking(model, *["ok"] * 20)
    for start in range(0, len(tools), 100):
        given = decision("x", tools[start : start + 100]).tools("openai")
        assert asked.responses.create(model="m", input="x", tools=given).output_text == "ok"


async def test_a_route_whose_gate_opens_makes_no_network_call(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[Any] = []

    def refuse(_: Any, address: Any) -> None:
        refused.append(address)
        raise OSError("no network here")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    embedder = OpenAIEmbedder("m", base_url="http://127.0.0.1:9/v1", api_key="k")
    options = Options(semantic_timeout_s=100)  # The first use loads a library, which takes long on a busy machine.
    async with Router(EXAMPLES, embedder=embedder, options=options) as router:
        sure = await router.route("refund charge ch_3PqX, the customer paid twice")
        assert (sure.gate_confidence >= 0.7, sure.semantic_ran, refused, sure.warnings) == (True, False, [], ())
        unsure = await router.route("zzqx vrrm plonk")
    assert refused
    assert any("only keyword search was used" in warning for warning in unsure.warnings)


class OwnEmbedder:
    """The shipped model's vectors, changed by a function."""

    remote = False

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._model, self._make = shipped(), make
        self.id, self.dimension = "own", self._model.dimension

    def embed(self, texts: Sequence[str]) -> Any:
        return self._make(self._model.embed(texts))


HIRE = RouteRequest(query="a fresh hire joins our staff on Monday", tenant="local", route_hint=RouteHint.SEMANTIC)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda rows: rows * float("nan"), "embedder 'own' returned numbers that are not finite"),
        (lambda rows: rows[:1], "for 197 texts: it must return one row per text"),
        (lambda rows: None, "embedder 'own'"),
    ],
)
async def test_what_is_no_vector_for_each_text_leaves_the_keyword_answer(make: Callable[[Any], Any], told: str) -> None:
    async with Router(sample(), embedder=OwnEmbedder(make)) as router:
        decision = await router.route(HIRE)
    (warning,) = [warning for warning in decision.warnings if warning.startswith(KEYWORD_ALONE)]
    assert told in warning
    assert decision.matches
