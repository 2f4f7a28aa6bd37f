"""Reads a server's listing, all pages of it, as Tool records.

The MCP library rejects a whole listing or answer because of one malformed part. Therefore each part is repaired before
the library reads it.
"""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio.lowlevel

from orchestrator.catalogue.formats import RELATIONS, tool_from
from orchestrator.catalogue.tokens import compact
from orchestrator.common.json_input import first_problem
from orchestrator.common.redact import Secrets
from orchestrator.errors import InvalidCatalogue
from orchestrator.mcp.config.parse import ServerSpec
from orchestrator.mcp.meta import answer_meta
from orchestrator.records.tool import Annotations, Tool

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import ListToolsResult

MAX_PAGES = 500
MAX_TOOLS = 50_000
MAX_LISTING_BYTES = 64 * 2**20
MAX_DEFINITION_BYTES = 256 * 2**10
_TOO_LARGE = f"it has more than {MAX_DEFINITION_BYTES // 2**10} KiB"
_AT_A_TIME = 25
"""Number of tools read before other tasks get their turn, about two milliseconds."""
_READ = frozenset({"name", "title", "description", "inputSchema", "annotations", "_meta"})
_SAID = frozenset({"required", "type", "$ref"})
_HINTS = frozenset({"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})
_ASIDE = {"outputSchema": dict, "icons": list, "_meta": dict}
_LISTS = {"resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts"}
_BLOCKS = frozenset({"text", "image", "audio", "resource", "resource_link"})

logger = logging.getLogger(__name__)


class Listing:
    """Reads the listings of one connection. Each skipped tool is logged once."""

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self.secrets = Secrets()
        self.extras: dict[str, dict[str, Any]] = {}
        self._left_out: set[str] = set()
        self._unread, self._bytes = "", 0

    async def mend(self, item: Any) -> None:
        """Mend a message's result in place, where it lists tools or answers a call."""
        result = getattr(getattr(item, "message", None), "result", None)
        if not isinstance(result, dict):
            return
        if result.keys() & {"content", "structuredContent"}:
            _mend_answer(result)
        if isinstance(result.get("nextCursor"), int):
            result["nextCursor"] = str(result["nextCursor"])
        for method, name in _LISTS.items():
            if isinstance(items := result.get(name, ()), list | None):
                result[name] = [item for item in items or [] if self._is_known(method, name, item)]
        if result.get("tools", []) is None:  # As Go writes an empty list.
            result["tools"] = []
        if isinstance(listed := result.get("tools"), list):
            result["tools"] = kept = []
            for number, given in enumerate(listed, 1):
                tool = _trimmed(given)
                if self._is_readable(tool, number):
                    kept.append(tool)
                    self._set_aside(given)
                await _take_turns(number)

    def _is_known(self, method: str, name: str, item: Any) -> bool:
        if problem := _problem(method, {name: [item]}):
            said = self.secrets.redact(f"one of its {name} cannot be read ({problem})")
            if said not in self._left_out:
                self._left_out.add(said)
                logger.warning("server %s: %s and is skipped", self._spec.name, said)
        return not problem

    def _is_readable(self, tool: Any, number: int) -> bool:
        """Return True if the library can read the tool. Otherwise the tool is skipped."""
        size = len(compact(tool))
        self._bytes += size
        if problem := _TOO_LARGE if size > MAX_DEFINITION_BYTES else _problem("tools/list", {"tools": [tool]}):
            name = tool.get("name") if isinstance(tool, dict) else None
            self._leave_out(repr(name) if isinstance(name, str) else f"number {number} of its page", problem)
        return not problem

    def _set_aside(self, tool: dict[str, Any]) -> None:
        """Keep the parts of a tool that only a client behind the gateway reads."""
        kept = {name: part for name, kind in _ASIDE.items() if isinstance(part := tool.get(name), kind)}
        kept["_meta"] = answer_meta(kept.get("_meta"), Secrets())
        kept = {name: part for name, part in kept.items() if part}
        if kept and len(compact(kept)) <= MAX_DEFINITION_BYTES:
            self.extras[tool["name"]] = kept

    def _leave_out(self, tool: str, problem: str) -> None:
        self._unread = self.secrets.redact(f"its tool {tool} cannot be read ({problem})")
        if tool not in self._left_out:
            self._left_out.add(tool)
            logger.warning("server %s: %s and is skipped", self._spec.name, self._unread)

    async def tools(self, client: "Client") -> tuple[Tool, ...]:
        """Return the tools that the entry includes and that can be read.

        Raises:
            InvalidCatalogue: No tool can be read, or the listing does not end.
        """
        self._unread, self._bytes, self.extras, found = "", 0, {}, dict[str, Tool]()
        for number, record in enumerate(await self._records(client)):
            await _take_turns(number)
            if not self._spec.lists(record.name):
                continue
            try:
                tool = self._tool(record)
            except InvalidCatalogue as error:
                self._leave_out(repr(record.name), str(error))
                continue
            if tool.name in found:
                self._leave_out(f"{tool.name!r} once more", "another tool has this name")
            found.setdefault(tool.name, tool)
        if self._unread and not found:
            raise InvalidCatalogue(f"server {self._spec.name!r}: {self._unread}")
        return tuple(found.values())

    async def _records(self, client: "Client") -> list[Any]:
        """Follow cursors to the end, or to a page that was there before."""
        items, cursors, refused = list[Any](), set[str](), f"server {self._spec.name!r} lists"
        names = set[str]()
        page = await tools_page(client)
        while cursor := page.next_cursor:  # Some servers mean the end by an empty one, too.
            again = {tool.name for tool in page.tools}
            if cursor in cursors or (again and again <= names):
                logger.warning(
                    "server %s: it repeats a page of its tools. The listing was ended there", self._spec.name
                )
                return items + ([] if again <= names else page.tools)
            items += page.tools
            names |= again
            cursors.add(cursor)
            if len(items) > MAX_TOOLS or len(cursors) >= MAX_PAGES:
                raise InvalidCatalogue(
                    f"{refused} over {MAX_TOOLS:,} tools or {MAX_PAGES:,} pages; the listing is rejected"
                )
            if self._bytes > MAX_LISTING_BYTES:
                raise InvalidCatalogue(
                    f"{refused} over {MAX_LISTING_BYTES // 2**20} MiB of tools; the listing is rejected"
                )
            page = await tools_page(client, cursor)
        return [*items, *page.tools]

    def _tool(self, record: Any) -> Tool:
        fields = record.model_dump(by_alias=True, mode="json", exclude_none=True, include=_FIELDS)
        hidden = {name: _redacted(value, self.secrets) for name, value in fields.items()}
        tool = self._related({**hidden, "server": self._spec.name, "name": record.name})
        if self._spec.trust_annotations:
            return tool
        hints = tool.annotations
        stricter = Annotations(
            read_only=hints.read_only and None,
            destructive=hints.destructive or None,
            idempotent=hints.idempotent and None,
            open_world=hints.open_world or None,
        )
        return replace(tool, annotations=stricter, hash="")

    def _related(self, record: dict[str, Any]) -> Tool:
        """Return the tool with the relations that it states to tools of its own server. Relations to other servers are
        ignored.
        """
        try:
            tool = tool_from(record)
        except InvalidCatalogue as error:
            tool = tool_from({name: value for name, value in record.items() if name != "_meta"})
            logger.warning("server %s: a relation of its tool %r is ignored: %s", self._spec.name, tool.name, error)
        own = tuple(relation for relation in tool.relations if relation.to.startswith(f"{tool.server}:"))
        return tool if own == tool.relations else replace(tool, relations=own, hash="")


async def _take_turns(number: int) -> None:
    if number % _AT_A_TIME == 0:
        await anyio.lowlevel.checkpoint()


_FIELDS = {"title", "description", "input_schema", "annotations", "meta"}


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


def _trimmed(tool: Any) -> Any:
    """Return the used parts of a tool. If the type of its parameters is missing, they are an object."""
    if not isinstance(tool, dict):
        return tool
    used = {name: value for name, value in tool.items() if name in _READ and value is not None}
    schema = used.setdefault("inputSchema", tool.get("input_schema") or {})
    if isinstance(schema, dict):
        forms = {"properties": dict, "required": list}
        kept = {key: value for key, value in schema.items() if isinstance(value, forms.get(key, object))}
        kind = schema.get("type")
        is_object = kind is None or "object" in [
            str(one).lower() for one in (kind if isinstance(kind, list) else [kind])
        ]
        used["inputSchema"] = {**kept, "type": "object"} if is_object else kept
    if "_meta" in used:
        meta = used["_meta"] if isinstance(used["_meta"], dict) else {}
        used["_meta"] = {RELATIONS: meta[RELATIONS]} if RELATIONS in meta else {}
    if isinstance(hints := used.pop("annotations", None), dict):
        used["annotations"] = {name: hint for name, hint in hints.items() if name in _HINTS and hint is not None}
    return used


def _mend_answer(result: dict[str, Any]) -> None:
    """Mend the answer to a call in place."""
    if not isinstance(result.get("_meta", {}), dict):
        del result["_meta"]
    content = result.get("content") or []
    blocks = content if isinstance(content, list) else [content]
    result["content"] = [_known(block) for block in blocks if block is not None]
    if "resultType" not in result and not isinstance(result.get("structuredContent", {}), dict):
        odd = result.pop("structuredContent")  # Only from the protocol of 2026 on may it be no object.
        result["content"] = result["content"] or ([] if odd is None else [_known(odd)])
    if result.get("isError", False) is None:
        del result["isError"]


def _problem(method: str, result: dict[str, Any]) -> str:
    """Return the reason why the library would reject a result, or ""."""
    from mcp.types.methods import validate_server_result
    from pydantic import ValidationError

    try:
        validate_server_result(method, "2025-11-25", result)
    except ValidationError as error:
        return first_problem(error).removeprefix("tools.0.")
    return ""


def _known(block: Any) -> Any:
    """Return the block, or a text block instead of one that the library would reject."""
    if not isinstance(block, dict):
        return {"type": "text", "text": block if isinstance(block, str) else compact(block)}
    kind = block.get("type", "text")
    if isinstance(kind, str) and kind not in _BLOCKS:
        return {"type": "text", "text": f"[{kind}]"}
    plain = {name: value for name, value in block.items() if name not in ("annotations", "_meta")}
    readable = (own for own in (block, plain) if not _problem("tools/call", {"content": [own]}))
    said = block.get("text", {name: value for name, value in block.items() if name not in ("data", "blob")})
    return next(readable, {"type": "text", "text": said if isinstance(said, str) else compact(said)})


def _redacted(value: Any, secrets: Secrets) -> Any:
    """Redact a definition's texts. Names and types are kept, because a call must use them exactly."""
    if isinstance(value, str):
        return secrets.redact(value)
    if isinstance(value, list):
        return [_redacted(item, secrets) for item in value]
    if isinstance(value, dict):
        return {
            name: item if name in _SAID and not isinstance(item, dict) else _redacted(item, secrets)
            for name, item in value.items()
        }
    return value
