"""An entry's `envFile`, as VS Code has it: lines of NAME=VALUE."""

import re
from collections.abc import Iterator
from pathlib import Path

from orchestrator.catalogue.reading import why_unread
from orchestrator.errors import InvalidConfig

_LINE = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][\w.-]*)\s*=\s*(?P<value>.*)", re.ASCII)
_QUOTED = re.compile(r"""(['"])(?P<inside>.*)\1(?:\s+#.*)?""")


def read_env_file(path: str, file: str) -> dict[str, str]:
    """The variables, values as they stand; InvalidConfig says what `file` is, and on which line something is wrong.

    Blank lines and those that begin with # are passed over, and so is what stands behind a blank and a #. Values may
    stand in quotes, on one line. Nothing is replaced in them. No value stands in an error.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = why_unread(error)
        raise InvalidConfig(f'{file} cannot be read ({why}): give its path, or "env" in its place') from None
    return dict(_variables(text, file))


def _variables(text: str, file: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        value = None if found is None else _value(found["value"])
        if found is None or value is None:
            raise InvalidConfig(f"{file}, line {number}: give NAME=VALUE, a value in quotes on one line")
        yield found["name"], value


def _value(text: str) -> str | None:
    if text[:1] in ("'", '"'):
        quoted = _QUOTED.fullmatch(text)
        return quoted and quoted["inside"]
    return re.sub(r"(^|\s)#.*", "", text).rstrip()
