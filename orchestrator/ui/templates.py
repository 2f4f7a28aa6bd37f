"""Templates. Every text is escaped, and control characters in texts from others are removed."""

from base64 import b64encode
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from orchestrator.common.lines import plain, shown_json

FOLDER = Path(__file__).parent


def environment() -> Environment:
    """Return the environment of all templates. An application keeps one."""
    templates = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: plain(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "percent": percent,
        "path": partial(quote, safe="", errors="replace"),
        "exact": partial(shown_json, indent=2),
        "minute": lambda at: f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}",
        "day": lambda at: f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}",
    }
    return templates


def percent(share: float | None) -> str:
    """Return a share as text: `-` if it is unknown, and 100 % only for the whole."""
    if share is None:
        return "-"
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def file(name: str, **values: Any) -> str:
    """Return a page as one file with its style included. It loads nothing."""
    style = (FOLDER / "static" / "style.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return environment().get_template(name).render(style=style, digest=digest, **values)
