"""Write docs/reference/api.md, the page about Python, from the docstrings and signatures of the package.

    python -m docs.api_page

`docs/api_template.txt` has the order of the names. A line of it such as

    ::: orchestrator.Router

becomes a heading, the signature, the docstring and the public methods. `::: NAME without members` leaves the methods
out. The package's source is read and not imported, so the page shows types and defaults as they are written.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "docs" / "api_template.txt"
PAGE = ROOT / "docs" / "reference" / "api.md"
DIRECTIVE = re.compile(r"^::: ([\w.]+)( without members)?$", re.MULTILINE)
WIDTH = 100
TABLES = {"parameters": "parameter", "attributes": "attribute", "raises": "error"}


def page() -> str:
    """Return the text of the page as the source says it now."""
    package = griffe.load(
        "orchestrator", search_paths=[ROOT], allow_inspection=False, resolve_aliases=True
    )

    def entry(directive: re.Match[str]) -> str:
        path, without_members = directive.groups()
        return "\n".join(
            _entry(path, _resolved(package, path), with_members=not without_members)
        ).rstrip()

    return DIRECTIVE.sub(entry, TEMPLATE.read_text(encoding="utf-8"))


def _resolved(package: griffe.Object | griffe.Alias, path: str) -> griffe.Object:
    item = package[path.removeprefix("orchestrator.")]
    return item.final_target if isinstance(item, griffe.Alias) else item


def _entry(path: str, item: griffe.Object, *, with_members: bool) -> Iterator[str]:
    """Yield the lines of a name: its heading, and all that is said of it."""
    if isinstance(item, griffe.Module):  # Only its docstring, as the introduction of a section.
        yield from _docstring(item)
        return
    name = path.removeprefix("orchestrator.")
    yield f"### {name}"
    yield ""
    yield from _signature(item, name.rpartition(".")[2])
    yield from _docstring(item)
    if not with_members or not isinstance(item, griffe.Class):
        return
    for member in item.all_members.values():
        if not _has_entry(member):
            continue
        target = member.final_target if isinstance(member, griffe.Alias) else member
        yield f"#### {item.name}.{target.name}"
        yield ""
        yield from _signature(target, target.name)
        yield from _docstring(target)


def _has_entry(member: griffe.Object | griffe.Alias) -> bool:
    """Whether a member has an entry: public functions and properties of the class, and those of its bases here."""
    if member.name.startswith("_") or not member.canonical_path.startswith("orchestrator."):
        return False
    is_property = member.is_attribute and "property" in member.labels
    return bool(member.docstring) and (member.is_function or is_property)


def _signature(item: griffe.Object, name: str) -> Iterator[str]:
    """Yield the code block with the signature, on one line where it fits."""
    if isinstance(item, griffe.Class):
        parts = _class_parameters(item)
        if parts:
            yield from _block(name, parts, "")
    elif isinstance(item, griffe.Function):
        prefix = "async " if "async" in item.labels else ""
        returns = "" if item.returns is None else f" -> {item.returns}"
        yield from _block(prefix + name, list(_parameters(item)), returns)
    elif isinstance(item, griffe.Attribute) and item.annotation is not None:
        yield from ["```python", f"{name}: {item.annotation}", "```", ""]


def _class_parameters(item: griffe.Class) -> list[str]:
    """Return what a class is made with: the parameters of its `__init__`, or the fields of a record."""
    initial = item.all_members.get("__init__")
    if initial is None or not initial.canonical_path.startswith("orchestrator."):
        return _fields(item)
    function = initial.final_target if isinstance(initial, griffe.Alias) else initial
    return list(_parameters(function)) if isinstance(function, griffe.Function) else []


def _block(name: str, parts: list[str], returns: str) -> Iterator[str]:
    yield "```python"
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) <= WIDTH:
        yield line
    else:
        yield f"{name}("
        yield from (f"    {part}," for part in parts)
        yield f"){returns}"
    yield "```"
    yield ""


def _parameters(function: griffe.Function) -> Iterator[str]:
    keyword_only = False
    for parameter in function.parameters:
        if parameter.name in {"self", "cls"}:
            continue
        if parameter.kind is griffe.ParameterKind.var_positional:
            keyword_only = True
            yield _written(f"*{parameter.name}", parameter)
            continue
        if parameter.kind is griffe.ParameterKind.keyword_only and not keyword_only:
            keyword_only = True
            yield "*"
        star = "**" if parameter.kind is griffe.ParameterKind.var_keyword else ""
        yield _written(star + parameter.name, parameter)


def _written(name: str, parameter: griffe.Parameter) -> str:
    text = name if parameter.annotation is None else f"{name}: {parameter.annotation}"
    variadic = name.startswith("*")
    if parameter.default is None or variadic:
        return text
    return (
        f"{text} = {parameter.default}"
        if parameter.annotation is not None
        else f"{text}={parameter.default}"
    )


def _fields(item: griffe.Class) -> list[str]:
    """Return a record's fields as its keyword arguments."""
    decorators = {str(decorator.value).partition("(")[0] for decorator in item.decorators}
    if "dataclass" not in decorators:
        return []
    fields = [member for member in item.members.values() if _is_field(member)]
    parts = []
    for field in fields:
        default = str(field.value)
        if field.value is None:
            parts.append(f"{field.name}: {field.annotation}")
        elif default.startswith("field("):
            parts.append(f"{field.name}: {field.annotation} = ...")
        else:
            parts.append(f"{field.name}: {field.annotation} = {default}")
    return ["*", *parts] if parts else []


def _is_field(member: griffe.Object | griffe.Alias) -> bool:
    if not member.is_attribute or member.name.startswith("_") or member.annotation is None:
        return False
    is_constant = "class-attribute" in member.labels and "instance-attribute" not in member.labels
    return "property" not in member.labels and not is_constant


def _docstring(item: griffe.Object) -> Iterator[str]:
    if item.docstring is None:
        return
    for section in item.docstring.parse("google", warnings=False):
        kind = section.kind.value
        if kind == "text":
            yield section.value
        elif kind in TABLES:
            yield f"| {TABLES[kind]} | meaning |"
            yield "| --- | --- |"
            for row in section.value:
                name = row.annotation if kind == "raises" else row.name
                yield f"| `{name}` | {' '.join(row.description.split())} |"
        elif kind in {"returns", "yields"}:
            yield f"**{kind.capitalize()}:** " + " ".join(
                " ".join(row.description.split()) for row in section.value
            )
        elif kind == "examples":
            for _, text in section.value:
                yield from ["```python", text, "```"]
        else:
            raise ValueError(f"{item.path}: the page has no form for a section {kind!r}")
        yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
