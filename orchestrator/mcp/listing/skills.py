"""Skills of a server (SEP-2640): instructions for agents, which a search finds like tools.

    entry of `skills/list`   {"uri": "skill://billing/refunds/SKILL.md", "frontmatter": {"name": "refunds", ...},
                              "resources": [{"uri": "skill://billing/refunds/SKILL.md", "digest": "sha256:...", ...}]}
    record in the catalogue  Tool(server="shop", name="refunds", kind=Kind.SKILL, relations=(... used_with ...,))

A call of this record reads a file of the skill, and checks it against the entry.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.common.json_input import first_problem
from orchestrator.common.keys import normal_name
from orchestrator.records.relation import USED_WITH, Relation
from orchestrator.records.tool import Annotations, Kind, Tool

if TYPE_CHECKING:
    from mcp import Client

EXTENSION = "io.modelcontextprotocol/skills"
MAX_FILES = 512
MAX_BYTES = 16 * 2**20
"""The limits of one skill, as the extension states them."""
_MAX_PAGES = 200
_MAX_SKILLS = 10_000
"""A server's pages and skills beyond these are left out, so that a listing always ends."""
FILE = "SKILL.md"
_MAX_NAMED_FILES = 50
"""The files that a parameter's schema lists. More would make the definition long, and the file's text names them."""
_IDENTIFIER = re.compile(r"`([^`\s]+)`|\b(\w+(?:[_-]\w+)+|[a-z]+(?:[A-Z][a-z0-9]*)+)\b")
"""A word that is a name and no word of the language: quoted, or of several parts."""


class SkillFile(BaseModel):
    """A file of a skill."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    uri: str
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0)]


class Frontmatter(BaseModel):
    """The head of a `SKILL.md`. Fields that are not named here pass through."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\s/:]+$")]
    description: Annotated[str, Field(min_length=1)]

    @property
    def allowed_tools(self) -> list[str]:
        """The names in `allowed-tools`, which is a text or a list."""
        tools = (self.model_extra or {}).get("allowed-tools") or ()
        words = tools.replace(",", " ").split() if isinstance(tools, str) else map(str, tools)
        return [word.partition("(")[0] for word in words]


class Skill(BaseModel):
    """An entry of `skills/list`."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    uri: str
    frontmatter: Frontmatter
    resources: list[SkillFile] | Literal["dynamic"]

    @property
    def root(self) -> str:
        """The address of the skill's folder."""
        return self.uri.removesuffix(f"/{FILE}")

    @property
    def files(self) -> dict[str, SkillFile]:
        """The files by their paths in the skill's folder. None are known of a dynamic skill."""
        if self.resources == "dynamic":
            return {}
        return {file.uri.removeprefix(f"{self.root}/"): file for file in self.resources}

    @property
    def problem(self) -> str:
        """The reason why the entry is refused, or ""."""
        name = self.frontmatter.name
        if not self.uri.endswith(f"/{name}/{FILE}"):
            return f"its address {self.uri} does not end with /{name}/{FILE}"
        if self.resources == "dynamic":
            return ""
        if any(not file.uri.startswith(f"{self.root}/") for file in self.resources):
            return "a file is not in its folder"
        if FILE not in self.files:
            return f"{FILE} is not among its files"
        if len(self.resources) > MAX_FILES or sum(file.size for file in self.resources) > MAX_BYTES:
            return f"it has more than {MAX_FILES} files or {MAX_BYTES // 2**20} MiB"
        return ""


Skip = Callable[[str, str], None]
"""Receives the name of a skill that is left out, and the reason."""


async def read_skills(client: "Client", skip: Skip) -> list[Skill]:
    """Return the skills of a server that declares the extension."""
    if EXTENSION not in (client.server_capabilities.extensions or {}):
        return []
    skills: list[Skill] = []
    async for page in pages(partial(_page, client), _MAX_PAGES):
        for entry in page.skills[:_MAX_SKILLS]:
            skill = _skill(entry, skip)
            if skill is not None:
                skills.append(skill)
        if len(skills) > _MAX_SKILLS:
            break
    return skills[:_MAX_SKILLS]


async def pages(page_at: Callable[..., Awaitable[Any]], most_pages: int) -> AsyncIterator[Any]:
    """Yield the pages of a list, up to a limit. A server that names the same page again has no further one.

    Args:
        page_at: Returns the page at a `cursor`.
        most_pages: The maximum number of pages.
    """
    cursor: str | None = None
    for _ in range(most_pages):
        page = await page_at(cursor=cursor)
        yield page
        former = cursor
        cursor = page.next_cursor
        if not cursor or cursor == former:
            return


async def _page(client: "Client", cursor: str | None) -> Any:
    from mcp.types import PaginatedRequestParams, PaginatedResult, Request

    class ListSkillsRequest(Request[PaginatedRequestParams, Literal["skills/list"]]):
        method: Literal["skills/list"] = "skills/list"
        params: PaginatedRequestParams

    class ListSkillsResult(PaginatedResult):
        skills: list[Any]

    request: Any = ListSkillsRequest(params=PaginatedRequestParams(cursor=cursor))
    return await client.session.send_request(request, ListSkillsResult)


def _skill(entry: Any, skip: Skip) -> Skill | None:
    frontmatter = entry.get("frontmatter") if isinstance(entry, dict) else None
    name = str(frontmatter.get("name")) if isinstance(frontmatter, dict) else "without a name"
    try:
        skill = Skill.model_validate(entry)
    except ValidationError as error:
        skip(name, first_problem(error))
        return None
    if skill.problem:
        skip(name, skill.problem)
        return None
    return skill


def skill_tools(
    server: str, skills: Iterable[Skill], tools: Iterable[Tool], skip: Skip
) -> dict[str, tuple[Tool, Skill]]:
    """Return the record of each skill by its name. A skill with the name of a tool is left out.

    Args:
        server: The server's name.
        skills: Its skills.
        tools: Its tools.
        skip: Receives the skills that are left out.
    """
    by_name = {normal_name(tool.name): tool for tool in tools}
    records: dict[str, tuple[Tool, Skill]] = {}
    for skill in skills:
        name = skill.frontmatter.name
        if normal_name(name) in by_name:
            skip(name, "it has the name of a tool of its server")
            continue
        if name in records:  # The extension allows two skills of a name in two folders.
            name = skill.root.partition("://")[2]
        if name not in records and normal_name(name) not in by_name:
            records[name] = (_record(server, name, skill, by_name), skill)
    return records


def _record(server: str, name: str, skill: Skill, tools: dict[str, Tool]) -> Tool:
    parameter: dict[str, Any] = {
        "type": "string",
        "description": f"The file to read. Default: {FILE}, the instructions",
    }
    files = [*skill.files]
    if 1 < len(files) <= _MAX_NAMED_FILES:
        parameter["enum"] = files
    related = [tools[word] for word in _named_tools(skill.frontmatter) if word in tools]
    return Tool(
        server=server,
        name=name,
        kind=Kind.SKILL,
        description=skill.frontmatter.description,
        input_schema={"type": "object", "properties": {"file": parameter}},
        annotations=Annotations(read_only=True, idempotent=True),
        relations=tuple(Relation(to=tool.key, type=USED_WITH) for tool in related),
    )


def _named_tools(frontmatter: Frontmatter) -> dict[str, None]:
    """Return the normal names that may be tools, in the order of the text."""
    names = [*frontmatter.allowed_tools]
    for quoted, compound in _IDENTIFIER.findall(frontmatter.description):
        names.append(quoted or compound)
    return dict.fromkeys(normal_name(name.rpartition("__")[2]) for name in names)
