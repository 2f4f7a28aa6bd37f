"""Lists every string that a person can see: `python -m research.messages [FOLDER ...] [--kind KIND]`.

Each line has the file, the line, the kind and the text. The kinds are `error` (arguments of an exception), `help` (of a
command or an option), `output` (printed by a command), `log` (INFO or above), `reason` (in a record, such as `why` of a
Match), `page` (of `toolroute ui`) and `other` (any other text of three words or more). A value is shown as
`{expression}`.
"""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("orchestrator", "activities", "workflows")
CALLS = {
    "log": ("info", "warning", "error", "exception"),
    "output": ("echo", "secho", "note", "warn", "progress", "fail", "_fail", "confirm", "prompt"),
}
KEYWORDS = {
    "help": ("help", "short_help", "epilog", "description"),
    "reason": ("why", "reason", "note"),
}
KIND = {
    name: kind for kinds in (CALLS, KEYWORDS) for kind, names in kinds.items() for name in names
}
ERROR = re.compile(
    r"(Error|Exception|Unavailable|Invalid\w*|Unknown\w+|Unauthorised|Busy|Missing\w+|Failed|Changed)$"
)
COMMAND = re.compile(r"\.(command|group)\b")
Found = tuple[int, str, str]


def texts(node: ast.AST, kind: str) -> Iterator[Found]:
    """Yield line, kind and text of each string literal in an expression. An f-string is one text."""
    if isinstance(node, ast.JoinedStr):
        parts = (
            str(p.value) if isinstance(p, ast.Constant) else f"{{{_value(p)}}}" for p in node.values
        )
        yield node.lineno, kind, "".join(parts)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, kind, node.value
    elif not isinstance(node, ast.Subscript):
        for child in ast.iter_child_nodes(node):
            yield from texts(child, kind)


def _value(part: ast.expr) -> str:
    return ast.unparse(part.value if isinstance(part, ast.FormattedValue) else part)


def strings(tree: ast.AST) -> Iterator[Found]:
    """Yield line, kind and text of the strings in a module that a person can see."""
    seen = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    seen |= {
        part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc:
            yield from texts(node.exc, "error")
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
            kind = "error" if ERROR.search(name) else KIND.get(name, "")
            for argument in node.args if kind == "error" or kind in CALLS else ():
                yield from texts(argument, kind)
            for keyword in node.keywords:
                if (named := KIND.get(keyword.arg or "", "")) in KEYWORDS:
                    yield from texts(keyword.value, named)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if COMMAND.search(" ".join(map(ast.unparse, node.decorator_list))):
                yield node.lineno, "help", ast.get_docstring(node) or ""
        elif isinstance(node, ast.JoinedStr | ast.Constant) and node not in seen:
            yield from (found for found in texts(node, "other") if len(found[2].split()) > 2)


def page(template: str) -> Iterator[Found]:
    """Yield the texts of a page's template, without its tags and instructions."""
    hidden = re.compile(r"<(style|script)\b.*?</\1>|{[%#].*?[%#]}|<[^>]*>", re.DOTALL)
    shown = hidden.sub(lambda match: "  " + "\n" * match[0].count("\n"), template)
    for number, line in enumerate(shown.splitlines(), 1):
        yield from ((number, "page", text) for text in re.split(r"\s{2,}", line))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("places", nargs="*", type=Path, default=[Path(name) for name in FOLDERS])
    parser.add_argument(
        "--kind", default="", choices=["", "error", "page", "other", *CALLS, *KEYWORDS]
    )
    given = parser.parse_args()
    files = [
        file
        for place in given.places
        for file in (sorted(place.rglob("*")) if place.is_dir() else [place])
    ]
    for path in (file for file in files if file.suffix in (".py", ".html")):
        code = path.read_text(encoding="utf-8")
        kinds: dict[tuple[int, str], str] = {}
        for line, kind, text in strings(ast.parse(code)) if path.suffix == ".py" else page(code):
            if re.search(r"[a-z]{2}", text) and kinds.get((line, text), "other") == "other":
                kinds[line, text] = kind
        for (line, text), kind in sorted(kinds.items()):
            if given.kind in ("", kind):
                print(f"{path}:{line}: {kind}: {' '.join(text.split())}")


if __name__ == "__main__":
    main()
