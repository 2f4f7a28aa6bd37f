"""The texts of a server, in the form that a client's model may read.

A model reads descriptions, schemas, instructions and errors as text, and a server can put an order into each of them.
These functions leave out the texts that act on the reader (`index.flags`). A person reads the whole text in the log.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.common.lines import inline
from orchestrator.index.flags import text_suspicions, without_acts
from orchestrator.index.text import spaced

STDERR_MARK = "; last stderr output: "
"""What separates an error of toolroute from the output of the server's process."""

_MOST_PROGRESS = 1_000
"""The characters of a message about progress that are read and passed on."""
_NAMES = ("name", "uri", "uriTemplate")

logger = logging.getLogger(__name__)


def error_for_model(error: str) -> str:
    """Return an error without the output of a server's process, and without a text that acts on its reader."""
    message, mark, _ = error.partition(STDERR_MARK)
    if text_suspicions(message):
        logger.warning("an error of a server is not passed to the model: %s", inline(error))
        return "the server's error has a text that acts on its reader; the log of toolroute has the whole error"
    if mark:
        logger.warning(
            "the output of a server's process is not passed to the model: %s", inline(error)
        )
        return f"{message}; the log of toolroute has the output of its process"
    return message


def progress_for_model(words: str) -> str:
    """Return the beginning of a server's words about its progress, or "" if they act on their reader."""
    beginning = words[:_MOST_PROGRESS]
    if not text_suspicions(beginning):
        return beginning
    logger.warning("a server's words about its progress are not passed on: %s", inline(beginning))
    return ""


def instructions_for_model(instructions: str) -> str:
    """Return a server's instructions without the sentences that act on their reader, and a word about these."""
    reasons = text_suspicions(instructions)
    if not reasons:
        return instructions
    kept = str(without_acts(instructions)).strip()
    return f"{kept} [toolroute left out a flagged text: {'; '.join(reasons)}]".strip()


def definition_for_model(value: Any) -> Any:
    """Return JSON that no tool record has, such as output schemas and `_meta`, without texts that act."""
    return without_acts(value)


def has_plain_name(name: str) -> bool:
    """Return False for the name of a tool, prompt or resource that acts on its reader: it cannot be shown in part."""
    return not text_suspicions(spaced(name))


def items_for_model(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a server's resources, templates or prompts without texts that act.

    An item is left out if its name or URI acts.

    Args:
        items: Records of the protocol as JSON. The arguments of a prompt are checked like items.
    """
    passed = list[dict[str, Any]]()
    for item in items:
        names = [str(item.get(field, "")) for field in _NAMES]
        if not all(map(has_plain_name, names)):
            logger.warning("not shown to models, because its name acts: %s", inline(str(item)))
            continue
        safe = definition_for_model(dict(item))
        if isinstance(item.get("arguments"), list):
            safe["arguments"] = items_for_model(item["arguments"])
        passed.append(safe)
    return passed
