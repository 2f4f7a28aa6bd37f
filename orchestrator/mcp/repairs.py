"""What a server answers, mended before the MCP library reads it: that refuses the whole for one odd part.

A tool that cannot be read is left out of its listing instead of taking the others with it, and a call's answer that
lacks its content, or holds a block of a kind that is not known, is shown as far as it goes.
"""

import logging
from typing import TYPE_CHECKING, Any

from orchestrator.catalogue.reading import first_problem
from orchestrator.records.redact import Secrets

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_INITIALIZE, _LIST, _CALL = "initialize", "tools/list", "tools/call"
_BLOCKS = frozenset({"text", "image", "audio", "resource", "resource_link"})

logger = logging.getLogger(__name__)


class LeftOut:
    """One connection's tools that cannot be used: each is told once, however often it is listed."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._told: set[str] = set()

    def tell(self, tool: str, problem: str, secrets: Secrets) -> None:
        if tool not in self._told:
            self._told.add(tool)
            why = secrets.scrub(f"its tool {tool} cannot be read ({problem})")
            logger.warning("server %s: %s and is left out", self._server, why)


class Repairs:
    """Of one connection: it is shown every message."""

    def __init__(self, left_out: LeftOut, secrets: Secrets) -> None:
        self._left_out, self._secrets = left_out, secrets
        self._asked: dict[int | str, str] = {}
        self._version = ""

    def sent(self, item: "SessionMessage") -> None:
        from mcp.types import JSONRPCRequest

        message = item.message
        if isinstance(message, JSONRPCRequest) and message.method in (_INITIALIZE, _LIST, _CALL):
            self._asked[message.id] = message.method

    def received(self, item: "SessionMessage | Exception") -> None:
        """Mends the answer in place."""
        from mcp.types import JSONRPCError, JSONRPCResponse

        message = None if isinstance(item, Exception) else item.message
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return
        method = self._asked.pop(message.id, "")
        if isinstance(message, JSONRPCError):
            return
        if method == _INITIALIZE:
            self._version = str(message.result.get("protocolVersion"))
        elif method == _LIST:
            self._mend_listing(message.result)
        elif method == _CALL:
            _mend_answer(message.result)

    def _mend_listing(self, result: dict[str, Any]) -> None:
        tools = result.get("tools")
        if not isinstance(tools, list):
            return
        result["tools"] = tools = [_typed(tool) if isinstance(tool, dict) else tool for tool in tools]
        if not self._problem(result):
            return
        problems = [self._problem({**result, "tools": [tool]}) for tool in tools]
        if all(problems):
            return  # What is wrong with all of them is told as the listing's own error.
        result["tools"] = [tool for tool, problem in zip(tools, problems, strict=True) if not problem]
        for number, (tool, problem) in enumerate(zip(tools, problems, strict=True), start=1):
            if problem:
                name = tool.get("name") if isinstance(tool, dict) else None
                shown = repr(name) if isinstance(name, str) else f"number {number} of its page"
                self._left_out.tell(shown, problem.removeprefix("tools.0."), self._secrets)

    def _problem(self, result: dict[str, Any]) -> str:
        """Why the library would refuse this listing; empty where it would not."""
        from mcp.types.methods import validate_server_result
        from mcp.types.version import LATEST_PROTOCOL_VERSION
        from pydantic import ValidationError

        try:
            validate_server_result(_LIST, self._version or LATEST_PROTOCOL_VERSION, result)
        except ValidationError as error:
            return first_problem(error)
        except (KeyError, ValueError):
            return ""  # A protocol that is not known is refused elsewhere.
        return ""


def _typed(tool: dict[str, Any]) -> dict[str, Any]:
    """The tool with an object for its parameters where it does not say what they are: they can be nothing else."""
    schema = tool.get("inputSchema")
    if schema is None:
        return {**tool, "inputSchema": {"type": "object"}}
    if isinstance(schema, dict) and schema.get("type") is None:
        return {**tool, "inputSchema": {**schema, "type": "object"}}
    return tool


def _mend_answer(result: dict[str, Any]) -> None:
    if result.get("resultType", "complete") != "complete":
        return
    content = result.get("content")
    if content is None:
        result["content"] = []
    elif isinstance(content, list):
        result["content"] = [_known(block) for block in content]


def _known(block: Any) -> Any:
    """The block; a text that names its kind where that is not known."""
    kind = block.get("type") if isinstance(block, dict) else None
    return block if not isinstance(kind, str) or kind in _BLOCKS else {"type": "text", "text": f"[{kind}]"}
