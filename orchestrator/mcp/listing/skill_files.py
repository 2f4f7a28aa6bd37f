"""Files of a skill, read from its server and checked against the entry of the skill."""

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from orchestrator.mcp.listing.skills import FILE, Skill, SkillFile
from orchestrator.mcp.session import Session

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult


async def read_skill(session: Session, skill: Skill, path: str) -> "CallToolResult | None":
    """Return a file of a skill as the result of a call.

    Args:
        session: The session with the skill's server.
        skill: The entry of the skill.
        path: The path of the file below the skill. Empty: the file `SKILL.md`.

    Returns:
        The file's text. An error if the skill has no such file. None if the file differs from the digest in the entry.
    """
    path = path or FILE
    if skill.files and path not in skill.files:
        return _text(
            f"the skill has no file {path!r}; its files: {', '.join(skill.files)}", is_error=True
        )
    file = skill.files.get(path)
    is_same = True

    async def read(client: "Client") -> "CallToolResult":
        """Compare the file before its secrets are masked."""
        nonlocal is_same
        result = await client.read_resource(f"{skill.root}/{path}")
        data = _bytes(result.contents[0])
        is_same = file is None or _is_same(file, data)
        return _text(data.decode("utf-8", "replace"))

    answer = await session.request(read)
    return answer if is_same else None


def _bytes(content: Any) -> bytes:
    text = getattr(content, "text", None)
    return base64.b64decode(content.blob) if text is None else str(text).encode()


def _is_same(file: SkillFile, data: bytes) -> bool:
    return len(data) == file.size and file.digest == f"sha256:{hashlib.sha256(data).hexdigest()}"


def _text(text: str, *, is_error: bool = False) -> "CallToolResult":
    from mcp.types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(text=text)], is_error=is_error)
