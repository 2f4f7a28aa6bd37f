"""What a part of a task puts off to a later time, where the tool for it takes none: it would be done at once."""

import re

from orchestrator.catalogue.schema import usable
from orchestrator.language.modes import changes
from orchestrator.language.quoted import masked
from orchestrator.planning.parameters import TEXTS, parameters_of
from orchestrator.records.tool import Tool

_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_COUNT = r"(?:\d+|an?|one|two|three|four|five|six|ten|half an)"
_LATER = re.compile(
    r"(?i)(?<!\bof )\b(?:tomorrow|tonight|later(?: today)?|at (?:noon|midnight)"
    r"|at \d{1,2}(?::\d\d)?\s?(?:[ap]\.?m\b\.?|o['’]clock)"
    rf"|(?:on|next|this coming|from|by)\s{_DAY}|next (?:week|month|quarter|year)"
    rf"|in {_COUNT} (?:minute|hour|day|week|month)s?)(?:\s(?:morning|afternoon|evening|night|at \d{{1,2}}(?::\d\d)?))?"
    r"(?=,|\W*(?:\Z|\b(?:and|then|please|for|to|if|but)\b))"
)
"""A time to come, at the end of what is asked or before what goes on with it."""
_TAKES_TIME = frozenset(
    "after at before cron date day days deadline delay due end from schedule start time until when".split()
)


def put_off(text: str, tool: Tool) -> str:
    """The time to come that a part of a task says, where its tool changes something and takes neither a time nor words
    which that may be part of; else ""."""
    found = _LATER.search(masked(text))
    if found is None or not changes(tool):
        return ""
    takes = parameters_of(usable(tool.input_schema or {})).values()
    if any(own.kind in ("date", "datetime", "time") or not _TAKES_TIME.isdisjoint(own.words) for own in takes):
        return ""
    return "" if any(own.words[-1] in TEXTS for own in takes) else text[found.start() : found.end()]
