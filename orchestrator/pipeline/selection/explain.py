"""Explains a Decision: the reasons for rejected tools, and warnings."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from orchestrator.common.lines import one_line
from orchestrator.extras import install_command
from orchestrator.index.embedders.language_encoder import EXTRA, is_installed
from orchestrator.options import Options
from orchestrator.pipeline.selection.limits import Fitted
from orchestrator.pipeline.selection.matches import SHOWN_WORDS, Overlap
from orchestrator.pipeline.state import State, Task
from orchestrator.records.decision import Decision
from orchestrator.records.findings import Mention
from orchestrator.records.outcome import Near
from orchestrator.records.request import RouteHint, within
from orchestrator.records.tool import Match, Rejected, Stage

MAX_REJECTED = 20
_MOST_COMPARED = 2_000
"""The labels that are compared with a misspelt one. Each comparison takes microseconds, and a label may have
thousands of values."""
_SHOWN_DESCRIPTION = 180
LEAST_UNKNOWN = 0.3
"""The least share of words that no tool has, by weight, of a task for which the static embedder is needed."""
LIKELY = 0.5
"""The least confidence without a warning about the language, if the encoder of the extra `languages` has
read the task."""
LATIN_ENDS, OTHER_SCRIPT = 0x250, 0.5
"""The first letter after the Latin letters, and the least share of such letters in a task in another script than the
tools. The tools have less than a tenth of the task's share."""
FOREIGN = (
    "the static embedder hardly knows the language of this task, and the tools have few of its words, so expect wrong "
    "matches"
)


def explained(decision: Decision, past: Sequence[Near] = ()) -> dict[str, Any]:
    """Return the JSON contract of `toolroute explain -o json`: a Decision, the words, and the past tasks like it.

    Each match has the beginning of its tool's description.
    """
    record = decision.to_json(definitions=False)
    for match, entry in zip(decision.matches, record["matches"], strict=True):
        entry["description"] = one_line(match.tool.description, _SHOWN_DESCRIPTION)
        entry["words"] = {field: list(words) for field, words in match.words.items()}
    if past:
        record["past_tasks"] = [
            {"query": near.query, "used": [*near.used], "cosine": round(near.cosine, 4)}
            for near in past
        ]
    return record


def rejected(
    state: State,
    overlap: Overlap,
    positions: Sequence[int],
    matches: Sequence[Match],
    fitted: Fitted,
) -> tuple[Rejected, ...]:
    """Return at most MAX_REJECTED other tools with reasons: too large, excluded, or beyond the limit.

    Args:
        state: The state.
        overlap: The matched words.
        positions: The positions of the matches.
        matches: The matches.
        fitted: The matches that did not fit into a limit.
    """
    too_large = f"its definition is larger than the limit of {fitted.room}"
    reasons = [Rejected(tool=match.tool.key, why=too_large) for match in fitted.dropped]
    if state.task.index.origins:
        for position in positions:
            reasons += _other_definitions(state, position)
    for mention in excluded(state):
        server_tools = state.task.index.catalogue.of_server(mention.server)
        why = f"the task excludes the server {mention.said!r}"
        reasons += [Rejected(tool=tool.key, why=why) for tool in server_tools[:MAX_REJECTED]]
    dropped = {match.tool.key for match in fitted.dropped}
    reasons += _ranked_after(state, overlap, positions, matches, dropped)
    return tuple(reasons[:MAX_REJECTED])


def excluded(state: State) -> list[Mention]:
    """Return the first mention of each server that the task excludes and does not want."""
    mentions: dict[str, Mention] = {}
    if state.explicit.unwanted:
        wanted = state.explicit.wanted
        for mention in state.explicit.mentions:
            if mention.unwanted and mention.server not in wanted:
                mentions.setdefault(mention.server, mention)
    return list(mentions.values())


def _other_definitions(state: State, position: int) -> list[Rejected]:
    """Return the other definitions of a key, which further sources have."""
    key = state.task.index.keys[position]
    first, *others = state.task.index.origins.get(key, ("",))
    reason = f"another definition of this key; the definition of {first!r} is used, because that source comes first"
    return [Rejected(tool=key, why=f"source {other!r} has {reason}") for other in others]


def _ranked_after(
    state: State,
    overlap: Overlap,
    positions: Sequence[int],
    matches: Sequence[Match],
    dropped: set[str],
) -> list[Rejected]:
    """Return the next tools of the ranking, with the words of the last match that they lack."""
    last_words = set[str]().union(*matches[-1].words.values()) if matches else set[str]()
    ahead = "the only match" if len(matches) == 1 else f"the {len(matches)} matches"
    shown = set(positions)
    reasons = []
    for position, lacks in zip(overlap.positions, overlap.lacks(last_words), strict=True):
        key = state.task.index.keys[position]
        if position in shown or key in dropped:
            continue
        more = f"; without the words: {', '.join(lacks[:SHOWN_WORDS])}" if lacks else ""
        why = f"probability {state.scores[position]:.2f}, ranked after {ahead}{more}"
        reasons.append(Rejected(tool=key, why=why))
    return reasons


def warnings_of(
    state: State, stage: Stage, positions: Sequence[int], room: str, leaders: Sequence[int]
) -> Iterator[str]:
    """Yield warnings about unexpected readings of the query, and about fewer matches than requested.

    Args:
        state: The state.
        stage: The Decision's stage.
        positions: The positions of the matches.
        room: The limit that the matches were held to.
        leaders: The best tool of each clause and named server.
    """
    understood = state.task.understood
    for slip, word in understood.corrected.items():
        yield f'no tool has the word "{slip}": it was read as "{word}"'
    for part in understood.left_out:
        yield f'"{part}" was read as an exclusion and was not searched'
    if _is_foreign(state, positions):
        yield f"{FOREIGN}; {_remedy_for_languages(state.task.options)}"
    yield from _of_texts(state, positions)
    if state.recalled is not None and state.recalled.decided_alone:
        yield f"{state.recalled.decided_alone} is first because of one person's past tasks: check that it fits"
    hint = RouteHint(state.task.request.route_hint)
    if hint.ordered_by and not state.lists.get(hint.ordered_by):
        yield f"route_hint={hint!s}: this pipeline has no results of that leg, so all legs were used"
    if state.explicit.mentions or state.explicit.absent:
        first = positions[:1] if stage is not Stage.NONE else ()
        yield from _of_servers(state, [*state.lifted, *leaders, *first])
    yield from _why_little(state, stage, positions, room)


def _is_foreign(state: State, positions: Sequence[int]) -> bool:
    """Return True if semantic search was needed for a language that the embedder and the tools do not know well.

    The encoder of the extra `languages` knows 16 languages, and then the confidence is higher.
    """
    if state.gate_open or state.candidates is None:
        return False
    if state.second is not None and state.confidence >= LIKELY:
        return False
    search = state.candidates.search
    if state.task.options.embedder != "static" or search.unfamiliar is None:
        return False
    if not state.task.understood.other_language or search.unknown < LEAST_UNKNOWN:
        return False
    beyond_latin = _beyond_latin(state.task.understood.asked)
    if beyond_latin < OTHER_SCRIPT:
        return True
    tools = state.task.index.tools
    descriptions = " ".join(tools[position].description for position in positions)
    return _beyond_latin(descriptions) < beyond_latin / 10


def _remedy_for_languages(options: Options) -> str:
    further_remedies = (
        "set a multilingual embedder (TOOLROUTE_EMBEDDER=openai:MODEL), or let a language model read the task "
        "(TOOLROUTE_UNDERSTAND=model)"
    )
    if options.languages == "off":
        return f"set TOOLROUTE_LANGUAGES=auto, {further_remedies}"
    if is_installed():
        return further_remedies
    return f"install the extra `{EXTRA}` ({install_command(EXTRA)}), {further_remedies}"


def _beyond_latin(text: str) -> float:
    """Return the share of a text's letters that are no Latin letters."""
    if text.isascii():
        return 0.0
    letters = [letter for letter in text if letter.isalpha()]
    return sum(letter >= chr(LATIN_ENDS) for letter in letters) / max(len(letters), 1)


def _of_texts(state: State, positions: Sequence[int]) -> Iterator[str]:
    """Yield warnings about the texts of the matches: first about flagged ones, then about those to read."""
    index = state.task.index
    for position in positions:
        if position in index.flag_reasons:
            reasons = "; ".join(index.flag_reasons[position])
            yield f"{index.keys[position]} is flagged and shown without the flagged text: {reasons}"
    for position, phrases in index.mentions(positions).items():
        if phrases:
            mentioned = ", ".join(phrases)
            yield f"the definition of {index.keys[position]} mentions {mentioned}: read it before you use the tool"


def _of_servers(state: State, matching: Sequence[int]) -> Iterator[str]:
    """Yield warnings about the servers that the task names. matching: tools of servers that have a match."""
    index = state.task.index
    explicit = state.explicit
    servers_with_match = {index.tools[position].server for position in matching}
    for server in explicit.wanted:
        if server not in servers_with_match:
            yield f"the task names the server {server!r}, but no tool of that server matches"
    for name in explicit.absent:
        if name in index.servers.named:
            remedy = "run `toolroute tools sync`"
            yield f"the task names the server {name!r}, which is configured but not listed yet; {remedy}"
        else:
            similar = ", ".join(get_close_matches(name, index.servers.named))
            yield f"the task names the server {name!r}, which is unknown; similar names: {similar}"
    for server in explicit.unwanted:
        if server in explicit.wanted:
            yield f"the task both asks for and excludes the server {server!r}: its tools may match"
        else:
            yield f"the task excludes the server {server!r}: its tools do not match"


def _why_little(state: State, stage: Stage, positions: Sequence[int], room: str) -> Iterator[str]:
    """Yield the reason why there are no matches, or only matches with a low probability."""
    task = state.task
    if not task.index.tools:
        remedy = "add tools with `toolroute tools import` or `toolroute tools sync`, or give a file with tools"
        yield f"the catalogue of {task.request.tenant} is empty: {remedy}"
    elif state.allowed is not None and not state.allowed.any():
        yield _why_none_allowed(task)
    elif state.scores and not positions:
        remedy = "raise token_cap" if task.request.token_cap else "shorten the tools' schemas"
        yield f"every definition is larger than the limit of {room}: {remedy}"
    elif task.understood.asks_nothing:
        yield "the task only excludes tools; the matches are for information and have a low probability"
    elif stage is Stage.NONE:
        yield "no tool matches well; the matches are for information and have a low probability"


def _why_none_allowed(task: Task) -> str:
    only = task.request.only
    if only and not any(within(key, only) for key in task.index.keys):
        return "no tool matches the patterns of `only`, or of the profile: correct the patterns"
    remedy = _labels_meant(task) or "`toolroute tools list` shows them all"
    if not task.request.filters:
        return f"no tool is left, because the task excludes all of them; {remedy}"
    filters = ", ".join(f"{name}={value}" for name, value in task.request.filters.items())
    return f"no tool matches the filters {filters}; {remedy}"


def _labels_meant(task: Task) -> str:
    """Return a hint with labels that are similar to filters that no tool has, or ""."""
    labels = task.index.labelled
    names = {name for name, _ in labels}
    unknown = [label for label in task.request.filters.items() if label not in labels]
    hints = []
    for name, value in unknown:
        values = [known_value for label_name, known_value in labels if label_name == name]
        hints += [
            f"{name}={similar}"
            for similar in get_close_matches(value, values[:_MOST_COMPARED], n=2)
        ]
    for name, value in unknown:
        hints += [f"{similar}={value}" for similar in get_close_matches(name, names - {name}, n=1)]
    return f"did you mean {' or '.join(hints)}?" if hints else ""
