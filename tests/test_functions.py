"""Functions as tools: definitions from signatures and docstrings, and calls with validated arguments."""

import asyncio
import enum
import json
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from agents.tool_context import ToolContext
from fastmcp import Context as FastContext
from fastmcp.dependencies import CurrentContext, Depends
from langchain.tools import ToolRuntime
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg
from pydantic import BaseModel, Field
from pydantic_ai import RunContext

from orchestrator import Catalogue, OrchestratorPlugin, Router, Tool
from orchestrator.catalogue.shrink import LADDER
from orchestrator.errors import InvalidArguments, InvalidCatalogue, InvalidConfig, InvalidInput, UnknownSetting
from orchestrator.index.flags import cleaned
from orchestrator.trust.approval_rules import needs_approval


def function_tool(function: Callable[..., Any]) -> Tool:
    [found] = Catalogue.of(function)
    return found


class Priority(enum.Enum):
    LOW = "low"
    HIGH = "high"


@dataclass
class Address:
    city: str


class Item(BaseModel):
    sku: str
    count: int = Field(1, gt=0)


def send_email(to: str, body: str = "", priority: Priority = Priority.LOW) -> str:
    """Send an email.

    It goes out at once.

    Args:
        to: The receiver's address.
        body (str): The text.
    """
    return f"{to} {body!r} {priority}"


async def create_invoice(items: list[Item], ship_to: Address, due: date) -> str:
    """Create an invoice.

    :param items: What was sold.
    :param ship_to: Where it goes.
    """
    await asyncio.sleep(0)
    return f"{items[0].sku} x{items[0].count} {ship_to.city} {due:%d.%m.%Y}"


def weather(
    city: Annotated[str, "The city"],
    unit: Literal["c", "f"] = "c",
    days: Annotated[int, Field(description="Of the forecast", ge=1)] = 1,
    schema: str = Field("", description="A form"),
) -> str:
    """The weather in a city.

    Parameters
    ----------
    city : str
        Goes behind the annotation.
    unit, schema : str
        Celsius or Fahrenheit.
    """
    return f"{city} {unit} {days} {schema!r}"


class Calendar:
    def __init__(self, owner: str) -> None:
        self.owner = owner

    def add(self, title: str, /, *, minutes: int = 30) -> str:
        """Add a meeting."""
        return f"{self.owner}: {title}, {minutes}"


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    schema = function_tool(function).input_schema or {}
    assert schema["additionalProperties"] is False
    found: dict[str, Any] = schema["properties"]
    return found


def test_docstrings_of_three_styles_describe_tool_and_parameters() -> None:
    assert function_tool(send_email).description == "Send an email.\n\nIt goes out at once."
    assert properties(send_email)["to"] == {"type": "string", "description": "The receiver's address."}
    assert properties(send_email)["body"] == {"type": "string", "default": "", "description": "The text."}
    assert properties(create_invoice)["items"]["description"] == "What was sold."
    own = {name: part["description"] for name, part in properties(weather).items()}
    assert own == {
        "city": "The city",
        "unit": "Celsius or Fahrenheit.",
        "days": "Of the forecast",
        "schema": "A form",
    }
    assert (function_tool(weather).input_schema or {})["required"] == ["city"]
    assert function_tool(shutil.which).input_schema  # Without annotations.


async def run(function: Callable[..., Any], **arguments: Any) -> Any:
    """Return the function's result for a model's call, after routing."""
    async with Router(Catalogue.of(function)) as router:
        decision = await router.route(f"{function.__name__} {function.__doc__}")
    return await decision.resolve({"name": function.__name__, "arguments": json.dumps(arguments)}).run_async()


async def test_a_call_gets_arguments_of_the_types_that_the_signature_names() -> None:
    assert await run(send_email, to="a@b.org", priority="high") == "a@b.org '' Priority.HIGH"
    sold = [{"sku": "pen"}]
    made = await run(create_invoice, items=sold, ship_to={"city": "Oslo"}, due="2026-11-27")
    assert made == "pen x1 Oslo 27.11.2026"
    assert await run(weather, city="Oslo", days=2) == "Oslo c 2 ''"
    assert await run(Calendar("Ana").add, title="Stand-up") == "Ana: Stand-up, 30"


async def test_a_function_that_returns_a_coroutine_is_awaited() -> None:
    def later(city: str) -> Any:
        """The weather in a city."""
        return asyncio.sleep(0, f"{city}: grey")

    assert await run(later, city="Oslo") == "Oslo: grey"


async def test_what_the_function_does_not_take_is_refused_before_it_is_called() -> None:
    with pytest.raises(InvalidArguments, match="'ot' was unexpected"):
        await run(send_email, ot="a@b.org")
    with pytest.raises(InvalidArguments, match="create_invoice: due: 'soon' is not a 'date'"):
        await run(create_invoice, items=[], ship_to={"city": "Oslo"}, due="soon")


async def test_a_call_runs_where_its_function_is_and_says_so_elsewhere() -> None:
    def held() -> str:
        """Hold the thread that calls it."""
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        return "done"

    assert await run(held) == "done"
    async with Router(Catalogue([send_email, create_invoice, {"name": "ping", "server": "net"}])) as router:
        decision = await router.route("send an email, create an invoice and ping", token_cap=10_000)
    mail = decision.resolve({"name": "send_email", "arguments": {"to": "x"}})
    assert mail.run() == "x '' Priority.LOW"
    assert repr(mail) == "ResolvedCall('send_email', {'to': 'x'})"
    one = {"items": [{"sku": "pen"}], "ship_to": {"city": "Oslo"}, "due": "2026-11-27"}
    assert await decision.resolve({"name": "create_invoice", "arguments": one}).run() == "pen x1 Oslo 27.11.2026"
    with pytest.raises(InvalidInput, match="'net:ping' is not a function of this process"):
        decision.resolve({"name": "net__ping"}).run()


def test_a_shortened_tool_keeps_its_function() -> None:
    tool = function_tool(send_email)
    assert all(shorter(tool).function is tool.function for shorter in LADDER)
    assert cleaned(tool).function is tool.function
    assert tool == Tool(**{name: getattr(tool, name) for name in tool.__dataclass_fields__})


def test_keys_of_functions_are_their_names() -> None:
    catalogue = Catalogue.of(weather, send_email)
    assert [tool.key for tool in catalogue] == ["send_email", "weather"]
    assert catalogue["weather"].name == "weather"
    assert repr(catalogue) == "Catalogue(2 tools: send_email, weather)"


def injected(city: str, user: Annotated[str, InjectedToolArg]) -> str:
    return f"{city} {user}"


def configured(city: str, user: RunnableConfig) -> str:
    return f"{city} {user}"


def runtime(city: str, user: ToolRuntime[None, Any]) -> str:
    return f"{city} {user}"


def with_deps(user: RunContext[str], city: str) -> str:
    return f"{city} {user}"


def wrapped(user: ToolContext[str], city: str) -> str:
    return f"{city} {user}"


def served(city: str, user: FastContext = CurrentContext()) -> str:  # noqa: B008
    return f"{city} {user}"


def depends(city: str, user: str = Depends(lambda: "nobody")) -> str:
    return f"{city} {user}"


@pytest.mark.parametrize("function", [injected, configured, runtime, with_deps, wrapped, served, depends])
async def test_what_a_framework_fills_is_hidden_and_passed(function: Callable[..., Any]) -> None:
    assert [*properties(function)] == ["city"]
    async with Router(Catalogue.of(function)) as router:
        decision = await router.route(function.__name__)
    call = decision.resolve({"name": function.__name__, "arguments": {"city": "Oslo"}})
    assert call.run(user="ana") == "Oslo ana"
    assert await call.run_async(user="ana") == "Oslo ana"
    with pytest.raises(InvalidInput, match=r"the model gives no 'user': give it to the call, e\.g\. call\.run\(user="):
        call.run()
    with pytest.raises(InvalidArguments, match="'user' was unexpected"):
        decision.resolve({"name": function.__name__, "arguments": {"city": "Oslo", "user": "eve"}})
    with pytest.raises(InvalidConfig, match="only its agent framework fills 'user', and a worker has none"):
        OrchestratorPlugin(catalogue=Catalogue.of(function))


def test_a_context_that_may_be_missing_is_none() -> None:
    def optional(city: str, config: RunnableConfig | None = None) -> str:
        return f"{city} {config}"

    [tool] = Catalogue.of(optional)
    assert tool.function is not None
    assert tool.function(city="Oslo") == "Oslo None"
    assert OrchestratorPlugin(catalogue=Catalogue.of(optional))


def one_by_one(count: int) -> Iterator[int]:
    yield count


async def one_by_one_async(count: int) -> AsyncIterator[int]:
    yield count


def many(*texts: str) -> None: ...
def any_of(**texts: str) -> None: ...
def opened(connection: Calendar) -> None: ...
def called(back: Callable[[], None]) -> None: ...
def unknown(value: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([many], r"'many' takes \*texts, which no schema can describe"),
        ([any_of], r"'any_of' takes \*\*texts"),
        ([opened], "'opened': a parameter has a type that JSON cannot represent"),
        ([called], "'called': a parameter has a type that JSON cannot represent"),
        ([unknown], "'unknown': its signature cannot be read .*Nowhere"),
        ([one_by_one], "'one_by_one' is a generator, and a tool has one result: return a list"),
        ([one_by_one_async], "'one_by_one_async' is a generator"),
        ([lambda: None], "give a named function or method"),
        ([Calendar], "give a named function or method"),
        ([Calendar.add], "'Calendar.add' is a method without its object: give it as object.add"),
        ([[weather, send_email]], r"a list is not a tool: give its items, Catalogue.of\(\*functions\)"),
        ([weather, send_email, weather], "two functions have the name 'weather'"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_the_reason(given: list[Any], why: str) -> None:
    with pytest.raises(InvalidCatalogue, match=why):
        Catalogue.of(*given)


def test_functions_that_only_read_are_called_without_asking() -> None:
    catalogue = Catalogue.of(weather, send_email, read_only=[weather])
    asks = {tool.name: (needs_approval(tool), tool.replayable) for tool in catalogue}
    assert asks == {"send_email": (True, False), "weather": (False, True)}
    assert catalogue["weather"].function is not None
    with pytest.raises(InvalidCatalogue, match=r"read_only: .*send_email.* is not one of the functions"):
        Catalogue.of(weather, read_only=[send_email])
    with pytest.raises(InvalidInput, match="read_only='weather': give a list"):
        Catalogue.of(weather, read_only="weather")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"read_only=<function weather at .*: give a list"):
        Catalogue.of(weather, read_only=weather)  # type: ignore[arg-type]
    with pytest.raises(UnknownSetting, match="unknown setting 'readonly'; did you mean 'read_only'"):
        Catalogue.of(weather, readonly=[weather])  # type: ignore[call-arg]


def test_a_catalogue_of_a_file_that_is_not_there_says_so() -> None:
    with pytest.raises(InvalidCatalogue, match=r"nofile\.jsonl: there is no such file or folder in /"):
        Catalogue("nofile.jsonl")
