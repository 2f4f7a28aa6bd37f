"""The Catalogue: the immutable set of tools that one tenant may use."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import count, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from orchestrator.common.digests import digest
from orchestrator.common.fields import named
from orchestrator.common.json_input import reading
from orchestrator.common.keys import key_of
from orchestrator.errors import InvalidCatalogue, UnknownTool
from orchestrator.records.tool import Annotations, CatalogueVersion, Tool, altered


class Catalogue:
    """The immutable set of tools that one tenant may use, ordered by server and name. Each key occurs once.

    Args:
        tools: Tools, functions, or mappings as in a file: in our own form, MCP's form, or the form of a function
            definition. A path reads that file or folder, like `Catalogue.read`.

    Raises:
        InvalidCatalogue: An item is not a tool, two tools have the same key, or the file does not exist.

    Examples:
        >>> from orchestrator import Catalogue
        >>> def send_email(to: str, subject: str) -> str:
        ...     "Send an email."
        ...     return f"sent to {to}"
        >>> Catalogue.of(send_email)
        Catalogue(1 tool: send_email)
    """

    @named
    def __init__(
        self, tools: Iterable[Tool | Mapping[str, Any] | Callable[..., Any]] | str | Path = ()
    ) -> None:
        records = _read(tools) if isinstance(tools, str | Path) else _from_records(tools)
        by_key = _by_key(records)
        self.tools: tuple[Tool, ...] = tuple(by_key.values())
        self.positions: Mapping[str, int] = dict(zip(by_key, count()))
        """The position of each key in `tools`."""

    @classmethod
    @named
    def of(
        cls, *functions: Callable[..., Any], read_only: Collection[Callable[..., Any]] = ()
    ) -> "Catalogue":
        """Return a catalogue of functions and methods. Each is a tool under its own name.

        Their signatures and docstrings become the definitions. `Decision.resolve(call).run()` calls them.

        Args:
            functions: The functions.
            read_only: The functions that change nothing. Nobody has to approve their calls, and the calls may
                be repeated.

        Raises:
            InvalidCatalogue: A function cannot be a tool, two have the same name, or one in `read_only` is not
                among them.
        """
        for function in read_only:
            if function not in functions:
                remedy = "is not one of the functions: add it to the functions"
                raise InvalidCatalogue(f"read_only: {function!r:.80} {remedy}")
        tools: dict[str, Tool] = {}
        for number, function in enumerate(functions, start=1):
            tool = _tool(number, function)
            if tool.name in tools:
                raise InvalidCatalogue(
                    f"two functions have the name {tool.name!r}: rename one, or give it once"
                )
            if function in read_only:
                tool = altered(tool, annotations=Annotations(read_only=True), hash="")
            tools[tool.name] = tool
        return cls(tools.values())

    @classmethod
    @named
    def read(cls, path: str | Path, server: str | None = "") -> "Catalogue":
        """Read a tools.jsonl (one tool per line), a .json list, or a folder of such files. Errors name the file and
        the line.

        Args:
            path: The file or the folder.
            server: The server of tools that name none. None: the name of their file, without its suffix.
        """
        return cls(_read(path, server))

    @classmethod
    @named
    def from_openapi(
        cls, document: Mapping[str, Any] | str | Path, server: str = ""
    ) -> "Catalogue":
        """Return the operations of an OpenAPI description as tools. `OpenApiExecutor` calls them.

        Args:
            document: The decoded document, or the path of a JSON or YAML file.
            server: The name of the tools' server. Default: the document's title.

        Raises:
            InvalidCatalogue: The document is no OpenAPI description.
        """
        from orchestrator.catalogue.formats import tool_from
        from orchestrator.catalogue.openapi import OpenApi

        api = OpenApi(document)
        name = server or api.server
        return cls(tool_from(operation.tool, name) for operation in api.operations.values())

    def __repr__(self) -> str:
        count = len(self.tools)
        first = ", ".join(tool.key for tool in self.tools[:3])
        return f"Catalogue({count:,} tool{'s' * (count != 1)}: {first}{', ...' * (count > 3)})"

    def __len__(self) -> int:
        return len(self.tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __getitem__(self, key: str) -> Tool:
        """Return the tool with this key, or the tool that replaces it.

        Raises:
            UnknownTool: There is neither.
        """
        try:
            return self.tools[self.positions[self.current(key)]]
        except KeyError:
            raise UnknownTool(
                f"unknown tool {key!r}: list the keys with `toolroute tools list`"
            ) from None

    def current(self, key: str) -> str:
        """Return the key itself. For a tool that is gone, return the key of its replacement."""
        return key if key in self.positions else self._replaced.get(key, key)

    @cached_property
    def _replaced(self) -> Mapping[str, str]:
        replaced = {}
        for tool in self.tools:
            for relation in tool.relations:
                if relation.replaces:
                    replaced[relation.to] = tool.key
        return replaced

    @cached_property
    def places(self) -> Mapping[str, slice]:
        """The range of each server's tools in `tools`."""
        return places_of_servers(self.tools)

    def of_server(self, server: str) -> Sequence[Tool]:
        """Return the tools of one server. Empty if there is no such server."""
        return self.tools[self.places.get(server, slice(0))]

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits over all definitions. Equal sets have equal fingerprints."""
        return digest("".join([tool.hash for tool in self.tools]), 16)

    @property
    def version(self) -> CatalogueVersion:
        return CatalogueVersion(fingerprint=self.fingerprint, tools=len(self.tools))

    def holding(self, tools: Iterable[Tool]) -> Self:
        """Return a copy with other tools, which must have the same keys in the same order."""
        catalogue = copy(self)
        catalogue.tools = tuple(tools)
        for derived in ("_replaced", "fingerprint"):
            vars(catalogue).pop(derived, None)
        return catalogue


def in_order(tools: Iterable[Tool]) -> Catalogue:
    """Return a catalogue of tools that were in one before: ordered by server and name, each key once."""
    catalogue = Catalogue()
    catalogue.tools = tuple(tools)
    keys = [key_of(tool.server, tool.name) for tool in catalogue.tools]
    catalogue.positions = dict(zip(keys, count()))
    return catalogue


def _from_records(records: Iterable[Any]) -> Iterator[Tool]:
    for number, record in enumerate(records, start=1):
        yield _tool(number, record)


def _by_key(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Return the tools by key, ordered by server and name. Raises InvalidCatalogue if two tools have one key."""
    by_key: dict[str, Tool] = {}
    for tool in sorted(tools, key=attrgetter("server", "name")):
        same_key = by_key.setdefault(tool.key, tool)
        if same_key.hash != tool.hash:
            raise InvalidCatalogue(
                f"two different tools have the key {tool.key!r}: rename one, or give them different servers"
            )
    return by_key


def _tool(number: int, record: Any) -> Tool:
    if isinstance(record, Tool):
        return record
    with reading(f"tool {number}", error=InvalidCatalogue):
        if isinstance(record, list | tuple):
            raise InvalidCatalogue(
                "a list is not a tool: give its items, Catalogue.of(*functions) or Catalogue(tools)"
            )
        return _tool_of(record)


def _tool_of(record: Any) -> Tool:
    """Return the tool of a function or a mapping. The readers are imported here, because a store needs none of them."""
    if callable(record):
        from orchestrator.catalogue.functions import function_tool

        return function_tool(record)
    from orchestrator.catalogue.formats import tool_from

    return tool_from(record)


def _read(path: str | Path, server: str | None = "") -> Iterable[Tool]:
    from orchestrator.catalogue.files import read_tools

    return read_tools(path, server)


def places_of_servers(tools: Sequence[Tool]) -> dict[str, slice]:
    """Return the range of each server's tools, among tools ordered by server."""
    ranges: dict[str, slice] = {}
    start = 0
    for server, group in groupby(tools, attrgetter("server")):
        end = start + sum(1 for _ in group)
        ranges[server] = slice(start, end)
        start = end
    return ranges
