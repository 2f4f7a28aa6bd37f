"""Parts that are none: they only go on with the values of the part before."""

from orchestrator.language.verbs import may_act
from orchestrator.language.words import first_word
from orchestrator.models import Match, Tool
from orchestrator.planning.parameters import parameters_of
from orchestrator.planning.pieces import pieces
from orchestrator.planning.pointing import LINKS, stands_beside
from orchestrator.planning.seams import Part
from orchestrator.schemas import usable
from orchestrator.text import split_words, stemmed


def gives_value(tool: Tool, part: Part, own: Match | None) -> bool:
    """Whether a part begins with a parameter of this tool and its value: "due 2026-04-30", "role 'dev'".

    Behind "and", and before more words, what may be an action is one where the part has a match of its own: "and email
    ann@example.org".
    """
    first = next(iter(pieces(part.text)), None)
    said = [stemmed(word) for word in split_words(part.text[: first.start])] if first else []
    if first is None or not said:
        return False
    parameters = list(parameters_of(usable(tool.input_schema or {})).values())
    named = [
        each
        for each in parameters
        if set(said) <= {*each.stems, *LINKS}
        and each.may_read(first)
        and stands_beside(each, first, [other for other in parameters if other is not each])
    ]
    acts = own is not None and may_act(first_word(part.text)) and ("and" in part.seam or bool(first.behind))
    return any(not acts or len(each.stems) == len(said) > 1 for each in named)


def lists_on(part: Part, before: Part) -> bool:
    """Whether a part begins with a value, as the one before ends: 'receipts "r1" and "r2" for Ann'."""
    first = next(iter(pieces(part.text)), None)
    if first is None or first.start:
        return False
    last = next(reversed(pieces(before.text)), None)
    return last is not None and last.end == len(before.text)
