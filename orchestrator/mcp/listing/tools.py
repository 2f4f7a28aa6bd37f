"""Reads a server's listing, all pages of it, as Tool records."""

import logging
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio.lowlevel

from orchestrator.catalogue.formats import tool_from
from orchestrator.catalogue.tokens import compact
from orchestrator.common.keys import normal_name
from orchestrator.common.redact import Secrets
from orchestrator.errors import InvalidCatalogue
from orchestrator.mcp.config.parse import ServerSpec
from orchestrator.mcp.listing.repair import problem, repair_answer, used_parts
from orchestrator.mcp.listing.skills import Skill, read_skills, skill_tools
from orchestrator.mcp.passed_messages import answer_meta
from orchestrator.records.tool import Annotations, Tool

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import ListToolsResult

MAX_PAGES = 500
"""The number of pages that a listing may have."""
MAX_TOOLS = 5_000
"""The number of tools of a server that its entry may include. Among 34,761 public tools the largest server has 573."""
MAX_LISTING_BYTES = 4 * 2**20
"""The size of these tools as JSON. The largest public server has 250 KiB. A listing at a limit takes less than 300 MiB
and 30 s to sync."""
MAX_DEFINITION_BYTES = 256 * 2**10
"""The size of one definition as JSON. The largest public one has 12 KiB."""
_MAX_CURSOR_CHARACTERS = 64 * 2**10
_MAX_NAME_SHOWN = 100
_MAX_PROBLEM_SHOWN = 500
"""The characters of a name, and of a whole problem, in a message. A server can give a name of megabytes."""
_TURN = 25
"""Number of tools read before other tasks get their turn, about two milliseconds."""
_RECORD_FIELDS = {"title", "description", "input_schema", "annotations", "meta"}
_EXACT_VALUES = frozenset({"required", "type", "$ref"})
"""Keywords of a schema with values that a call must use exactly. They are never redacted."""
_LISTS = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}

logger = logging.getLogger(__name__)


class Listing:
    """Reads the listings of one connection. Each skipped tool is logged once.

    Attributes:
        secrets: Values to redact.
        extras: The parts of tools that only a client behind the gateway reads: `outputSchema`, `icons` and `_meta`.
        skills: The server's skills by the names of their records.
        fresh_s: Seconds for which the last listing may be used, from the server's answer. 0: the answer has no number.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self.secrets = Secrets()
        self.extras: dict[str, dict[str, Any]] = {}
        self.fresh_s = 0.0
        self.skills: dict[str, Skill] = {}
        self._skipped: set[str] = set()
        self._last_problem = ""
        self._bytes = 0

    async def mend(self, item: Any) -> None:
        """Repair a message's result in place, if it lists something or answers a call."""
        result = getattr(getattr(item, "message", None), "result", None)
        if not isinstance(result, dict):
            return
        if "content" in result or "structuredContent" in result:
            repair_answer(result)
        if isinstance(result.get("nextCursor"), int):
            result["nextCursor"] = str(result["nextCursor"])
        for method, name in _LISTS.items():
            items = result.get(name, ())
            if items is None or isinstance(items, list):
                result[name] = [
                    entry for entry in items or [] if self._is_readable(method, name, entry)
                ]
        if result.get("tools", []) is None:  # As Go writes an empty list.
            result["tools"] = []
        if isinstance(result.get("tools"), list):
            result["tools"] = await self._readable_tools(result["tools"])

    async def _readable_tools(self, listed: list[Any]) -> list[Any]:
        readable: list[Any] = []
        for number, listed_tool in enumerate(listed, 1):
            await _give_turn(number)
            if not self._is_included(listed_tool):
                continue
            if len(readable) > MAX_TOOLS or self._bytes > MAX_LISTING_BYTES:
                break  # The listing will be refused, and its rest shall take no memory.
            tool = used_parts(listed_tool)
            if self._is_readable_tool(tool, number):
                readable.append(tool)
                self._keep_extras(listed_tool)
        return readable

    def _is_included(self, listed_tool: Any) -> bool:
        name = listed_tool.get("name") if isinstance(listed_tool, dict) else None
        return not isinstance(name, str) or self._spec.lists(name)

    def _is_readable(self, method: str, name: str, entry: Any) -> bool:
        reason = problem(method, {name: [entry]})
        if not reason:
            return True
        self.warn_once(f"one of its {name} cannot be read ({reason}) and is skipped")
        return False

    def warn_once(self, problem: str) -> None:
        """Log a problem of this connection's lists, without secrets, if it is new."""
        problem = _shortened(self.secrets.redact(problem), _MAX_PROBLEM_SHOWN)
        if problem not in self._skipped:
            self._skipped.add(problem)
            logger.warning("server %s: %s", self._spec.name, problem)

    def _is_readable_tool(self, tool: Any, number: int) -> bool:
        size = len(compact(tool))
        if size > MAX_DEFINITION_BYTES:
            limit = f"the limit is {MAX_DEFINITION_BYTES // 2**10} KiB"
            reason = f"it has {math.ceil(size / 2**10):,} KiB, {limit}"
        else:
            reason = problem("tools/list", {"tools": [tool]})
        if reason:
            name = tool.get("name") if isinstance(tool, dict) else None
            self._skip(
                repr(name) if isinstance(name, str) else f"number {number} of its page", reason
            )
            return False
        self._bytes += size
        return True

    def _keep_extras(self, tool: dict[str, Any]) -> None:
        extras: dict[str, Any] = {}
        for name, kind in (("outputSchema", dict), ("icons", list)):
            if isinstance(tool.get(name), kind):
                extras[name] = tool[name]
        meta = answer_meta(tool.get("_meta"))
        if meta:
            extras["_meta"] = meta
        size = len(compact(extras))
        if extras and size <= MAX_DEFINITION_BYTES:
            self._bytes += size
            self.extras[tool["name"]] = extras

    def _skip(self, tool: str, reason: str) -> None:
        # Redacted first, because a part of a secret is not found.
        tool = _shortened(self.secrets.redact(tool), _MAX_NAME_SHOWN)
        reason = _shortened(self.secrets.redact(reason), _MAX_PROBLEM_SHOWN)
        self._last_problem = self.secrets.redact(f"its tool {tool} cannot be read ({reason})")
        # The reason is not compared, because it may have a size that changes with each listing.
        if tool not in self._skipped:
            self._skipped.add(tool)
            logger.warning("server %s: %s and is skipped", self._spec.name, self._last_problem)

    async def tools(self, client: "Client") -> tuple[Tool, ...]:
        """Return the tools that the entry includes and that can be read.

        Raises:
            InvalidCatalogue: No tool can be read, or the listing does not end.
        """
        self._last_problem = ""
        self._bytes = 0
        self.extras = {}
        tools: dict[str, Tool] = {}
        for number, record in enumerate(await self._records(client)):
            await _give_turn(number)
            try:
                tool = self._tool(record)
            except InvalidCatalogue as error:
                self._skip(repr(record.name), str(error))
                continue
            same = tools.setdefault(normal_name(tool.name), tool)
            if same is not tool:
                self._skip(f"{tool.name!a} once more", f"the tool {same.name!a} has this name")
        if self._last_problem and not tools:
            raise InvalidCatalogue(f"server {self._spec.name!r}: {self._last_problem}")
        return (*tools.values(), *await self._skill_records(client, tools.values()))

    async def _skill_records(self, client: "Client", tools: Iterable[Tool]) -> list[Tool]:
        from mcp import MCPError

        try:
            skills = await read_skills(client, self._skip_skill)
        except MCPError as error:
            self._skip_skill("of the whole server", error.message)
            skills = []
        records = skill_tools(self._spec.name, skills, tools, self._skip_skill)
        self.skills = {name: skill for name, (_, skill) in records.items()}
        listed = [record for record, _ in records.values() if self._spec.lists(record.name)]
        return [
            replace(record, description=self.secrets.redact(record.description), hash="")
            for record in listed
        ]

    def _skip_skill(self, name: str, reason: str) -> None:
        self.warn_once(f"its skill {name!r} is skipped ({reason})")

    async def _records(self, client: "Client") -> list[Any]:
        """Follow cursors to the end, or to a page that was there before."""
        records: list[Any] = []
        names: set[str] = set()
        cursors: set[str] = set()
        page = await tools_page(client)
        self._check_size(len(page.tools), 1)
        while page.next_cursor:  # Some servers mean the end by an empty one, too.
            if len(page.next_cursor) > _MAX_CURSOR_CHARACTERS:
                raise InvalidCatalogue(
                    f"server {self._spec.name!r} gives a cursor of {len(page.next_cursor):,} characters, the limit is "
                    f"{_MAX_CURSOR_CHARACTERS:,}: the listing is rejected. The server must give shorter ones"
                )
            page_names = {tool.name for tool in page.tools}
            is_repeated = bool(page_names) and page_names <= names
            if page.next_cursor in cursors or is_repeated:
                warning = "server %s: it repeats a page of its tools. The listing was ended there"
                logger.warning(warning, self._spec.name)
                return records if page_names <= names else records + page.tools
            records += page.tools
            names |= page_names
            cursors.add(page.next_cursor)
            page = await tools_page(client, page.next_cursor)
            self._check_size(len(records) + len(page.tools), len(cursors) + 1)
        self.fresh_s = (page.ttl_ms or 0) / 1000
        return records + page.tools

    def _check_size(self, tools: int, pages: int) -> None:
        remedy = "Name the needed ones in includeTools of its entry"
        if tools > MAX_TOOLS:
            excess = f"at least {tools:,} tools, the limit is {MAX_TOOLS:,}"
        elif self._bytes > MAX_LISTING_BYTES:
            limit = f"the limit is {MAX_LISTING_BYTES // 2**20} MiB"
            excess = f"at least {self._bytes / 2**20:.1f} MiB of tools, {limit}"
        elif pages > MAX_PAGES:
            excess = f"at least {pages:,} pages of tools, the limit is {MAX_PAGES:,}"
            remedy = "The server must end the listing, or list more tools on each page"
        else:
            return
        raise InvalidCatalogue(
            f"server {self._spec.name!r} lists {excess}: the listing is rejected. {remedy}"
        )

    def _tool(self, record: Any) -> Tool:
        fields = record.model_dump(
            by_alias=True, mode="json", exclude_none=True, include=_RECORD_FIELDS
        )
        redacted = {name: _redacted(value, self.secrets) for name, value in fields.items()}
        if self.secrets.are_in(f"{record.name} {compact(redacted)}"):
            raise InvalidCatalogue("a name in it holds a secret of the server's entry")
        tool = self._with_relations_within(
            {**redacted, "server": self._spec.name, "name": record.name}
        )
        if self._spec.trust_annotations:
            return tool
        return replace(tool, annotations=_stricter(tool.annotations), hash="")

    def _with_relations_within(self, record: dict[str, Any]) -> Tool:
        """Return the tool with the relations that it states to tools of its server, and no others."""
        try:
            tool = tool_from(record)
        except InvalidCatalogue as error:
            tool = tool_from({name: value for name, value in record.items() if name != "_meta"})
            logger.warning(
                "server %s: a relation of its tool %r is ignored: %s",
                self._spec.name,
                tool.name,
                error,
            )
        relations = tuple(
            relation for relation in tool.relations if relation.to.startswith(f"{tool.server}:")
        )
        return tool if relations == tool.relations else replace(tool, relations=relations, hash="")


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _stricter(hints: Annotations) -> Annotations:
    """Return the hints of a server that is not trusted. Only hints that demand more care remain."""
    return Annotations(
        read_only=None if hints.read_only else hints.read_only,
        destructive=hints.destructive or None,
        idempotent=None if hints.idempotent else hints.idempotent,
        open_world=hints.open_world or None,
    )


async def _give_turn(number: int) -> None:
    if number % _TURN == 0:
        await anyio.lowlevel.checkpoint()


async def tools_page(client: "Client", cursor: str | None = None) -> "ListToolsResult":
    """Return a page of the listing. It is empty for a server that has only prompts or resources."""
    from mcp import MCPError
    from mcp.types import METHOD_NOT_FOUND, ListToolsResult

    try:
        return await client.list_tools(cursor=cursor)
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND or client.server_capabilities.tools is not None:
            raise
        return ListToolsResult(tools=[])


def _redacted(value: Any, secrets: Secrets) -> Any:
    """Redact a definition's texts. Names and types are kept, because a call must use them exactly."""
    if isinstance(value, str):
        return secrets.redact(value)
    if isinstance(value, list):
        return [_redacted(item, secrets) for item in value]
    if not isinstance(value, dict):
        return value
    redacted = {}
    for name, item in value.items():
        is_exact = name in _EXACT_VALUES and not isinstance(item, dict)
        redacted[name] = item if is_exact else _redacted(item, secrets)
    return redacted
