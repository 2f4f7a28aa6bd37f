"""Corrections: who says "cancel order 5520, no wait, 5521" takes the first value back, and means the second.

What is corrected is read as it is meant, "cancel order 5521", before anything else is. Where it is not clear what a
correction takes back, the text stays as it is.
"""

import re
from functools import lru_cache
from itertools import islice

from orchestrator.language.clauses import MAX_CUT, bare, first_word
from orchestrator.language.everyday import may_act
from orchestrator.language.quoted import masked
from orchestrator.language.reports import reports
from orchestrator.language.statements import only_states

_LEAD = r"(?:\s{0,3}(?<![,;.…])[,;.…]{1,9}|\s[-–—]+|\s?—)\s*(?:(?:oh|ah|uh|um|er|oops|hmm|and|but)[,\s]+)*"
_GONE = (
    r"(?:no[,.!…]*\s+wait|(?:no[,.!…]*\s+)?(?:scratch that|(?<=[,.;!…–—-]\s)(?:forget (?:it|that)"
    r"|never ?mind(?=\s*(?:[,.;!–—-]|\Z)))))"
)
_TAKES_BACK = (
    rf"(?P<gone>{_GONE}(?:[,.!…]*\s+{_GONE})*)|no[,.!…]*\s+(?:sorry|i meant?)"
    r"|(?<!\b(?:by|if|do|as)\s)(?<!\b(?:that|what|when)\s)(?<!\bwhich\s)(?:sorry[,.]?\s+)?i meant?"
    r"(?:\s+to say|(?!\s+to\b))"
    r"|nein,? (?:warte|ich meine?)|ich meinte?|no,? espera|quiero decir|non,? attends?|je veux dire"
)
"""Says of itself, wherever it stands, that it takes something back."""
_BEHIND_A_MARK = (
    r"wait[,.…]*\s+(?:no|sorry|actually)|strike that|correction(?=[,:])|or rather|actually(?:,?\s+no)?|no(?:pe)?(?=,)"
)
"""Says so behind a mark."""
_VALUE_BEFORE = r"wait(?=,)|sorry|(?P<make>make (?:it|that))|rather|nein|perdón|pardon"
"""Says so behind a mark and before a value."""
_CUE = re.compile(
    r"(?i)\b(?:no|nope|wait|sorry|meant?|scratch|never|nevermind|forget|strike|correction|rather|make|actually|nein"
    r"|meinte?|quiero|perdón|non|veux|pardon)\b"
)
_MARK = re.compile(
    rf"(?i)(?:(?:{_LEAD}|\s)(?:{_TAKES_BACK})|{_LEAD}(?:(?:{_BEHIND_A_MARK})|(?P<value>{_VALUE_BEFORE})))"
    r"\b(?:(?:\s*[,:;.!…]+|\s[-–—]+|—)?\s+|[.!…]*\Z)"
)
_FILLER = re.compile(r"(?i)\A(?:(?:only|just|it['’]s|it is|make (?:it|that)|to|the right one is)\s+)*")
_TOLD = re.compile(r"(?i)\b(?:saying|says?|said|that)\s*\Z")
_TELLS = re.compile(r"(?i)\b(?:ask|call|dm|e-?mail|message|ping|tell|text) [\w#@]+(?: an? \w+)?\Z")
"""Behind it stands what somebody is told, or what something is called."""
_SHAPES = tuple(
    re.compile(shape)
    for shape in (
        r"\"[^\"\n]{1,80}\"|'[^'\n]{1,80}'|“[^“”\n]{1,80}”",
        r"[#@][\w.-]*\w",
        r"\+\d[\d ()/-]{5,}\d",
        r"(?<![\w./-])[A-Za-z][\w-]+/[A-Za-z][\w.-]*\w",
        r"(?<![\w./-])[a-z]{2,}(?:-[a-z\d]{2,})+",
        r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
        r"(?<![\w#@.-])(?=[\w.:/-]*\d)[\w€$£](?:[\w.:/-]*\w)?(?:\s?[ap]m\b)?",
        r"(?<![\w.!?#@-])[A-Z][\w'’-]*[a-z][\w-]*(?:\s[A-Z][\w-]+)?",
    )
)
"""Kinds of values that one of the same kind may take the place of: what is quoted, handles, addresses, what has digits,
names."""
_BESIDE = re.compile(r"(?i)(?:first|keep|leave)\b")
_ALSO = re.compile(r"(?i)\b(?:also|as well|too)\b")
_ENDS = re.compile(r"(?i)\s*(?:\Z|[,.;:!?\n)]|[-–—]\s|(?:and|then|please|instead|for|from|in|at|on|to|by|with|of)\b)")
"""Behind a value that stands for itself: no noun, which it would count or describe."""
_CLOSES = re.compile(r"\A,(?=\s(?:about|at|by|for|from|in|into|of|on|to|with)\b)")
_UNIT = re.compile(r"\s[a-z]+\b")
_PHRASE = re.compile(r"(?i)(?P<first>[a-z]+)\s(?:(?!\s(?:and|then)\b)[^,.;:!?\n]){1,60}")
_HOW = r"\s(?:at|by|for|from|in|into|of|on|to|until|with)\b"
_CHUNK = re.compile(rf"(?i){_HOW}(?:(?!{_HOW}).)+")
_THEY = frozenset("first he i it she they this we you".split())
_ONE = re.compile(r"(?i)\bones?\b")
_TAKEN_BACK = re.compile(r"(?i)(?:do not|don['’]?t)(?:\s(?:do (?:it|that)|bother|cancel))?\s*(?:[,.;!]\s*|\Z)")
_FORBIDS = re.compile(r"(?i)(?:please )?(?:do not|don['’]?t)\b")
_POINTS = re.compile(r"(?i)\b(?:it|its|them|their|(?:that|this)(?=\s*(?:[,.;:!?]|\Z)))\b")
_JOINT = re.compile(r"(?i)(?:,|\s)\s*(?:and|but)\s+")
_SENTENCE = re.compile(r"[.!?\n]\s+|\n|,\s+(?:and\s+)?then\s+|\s+then\s+")
MOST = 8
"""What may correct in a text is looked at so often, and so many corrections are read."""


@lru_cache(maxsize=8)  # A task is read by routing and by planning.
def corrected(text: str) -> str:
    """The text without what it takes back, and with what it says instead in its place."""
    if len(text) > MAX_CUT or not _CUE.search(text):
        return text
    for _ in range(MOST):
        meant = _meant(text)
        if meant is None:
            break
        text = meant
    return text


def _meant(text: str) -> str | None:
    """The text with the first of its corrections carried out that can be."""
    said = masked(text)
    for mark in islice(_MARK.finditer(said), MOST):
        start = max((found.end() for found in _SENTENCE.finditer(said, 0, mark.start())), default=0)
        head, clause = text[:start], text[start : mark.start()]
        after = _FILLER.sub("", text[mark.end() :])
        if _is_said(mark, clause) or any(begin <= mark.start() < end for begin, end in reports(text)):
            continue
        if not clause.strip() or (mark["make"] and (only_states(clause) or not may_act(first_word(clause)))):
            continue  # "It is called 'Mug', make it 'Cup'" corrects nothing.
        done = _value(clause, after)
        if done is None and not mark["value"]:
            done = _phrase(clause, after) or _order(clause, after, alone=bool(mark["gone"]))
        if done is not None:
            return head + done
    return None


def _is_said(mark: re.Match[str], clause: str) -> bool:
    """Whether it is what somebody is told, or a title: "tell him sorry, I meant to call", "play Yes, No, Maybe"."""
    said = mark.group().lstrip(" ,")
    title = said[:1].isupper() and not said.startswith("I ") and mark.group()[:1] in ", "
    return title or bool(_TOLD.search(clause) or (mark.group()[:1] == " " and _TELLS.search(clause)))


def _value(clause: str, after: str) -> str | None:
    """A value in the place of the last one of its kind: "order 5520, no, 5521"."""
    for shape in _SHAPES:
        new = shape.match(after)
        old = [found for found in shape.finditer(clause) if not may_act(found.group().lower())] if new else []
        if not new or not old or (" " in new.group() and may_act(first_word(new.group()))):
            continue
        start, end = old[-1].span()
        same, unit = clause[end:], _UNIT.match(after, new.end())
        if new.group() == clause[start:end]:
            return None
        if same.strip() and after.startswith(same, new.end()):
            return f"{clause[:start]}{after}"
        if unit and clause.startswith(unit.group(), end):
            return f"{clause[:start]}{new.group()}{clause[end:]}{after[unit.end() :]}"
        if _ENDS.match(after, new.end()):
            return f"{clause[:start]}{new.group()}{same}{_CLOSES.sub('', after[new.end() :])}"
    return None


def _phrase(clause: str, after: str) -> str | None:
    """Words in the place of those that begin with the same word: "in Berlin, no, in Munich"."""
    new = _PHRASE.match(after)
    if new is None or new["first"].lower() in _THEY or may_act(new["first"].lower()) or _ONE.search(new.group()):
        return None
    old = [found.start() for found in re.finditer(rf"(?i)\b{re.escape(new['first'])}\b", clause)]
    if not old:
        return None
    said = after.lower().split()
    kept = [
        chunk for chunk in _CHUNK.findall(clause, old[-1] + len(new["first"])) if chunk.split()[0].lower() not in said
    ]
    return f"{clause[: old[-1]]}{new.group()}{''.join(kept)}{after[new.end() :]}"


def _order(clause: str, after: str, *, alone: bool) -> str | None:
    """Another order in the place of the one before, or none: "cancel 5521 - no wait, refund it". alone: whether a
    correction takes the order back that says nothing else."""
    before = [joint.end() for joint in _JOINT.finditer(clause) if may_act(first_word(clause[joint.end() :]))]
    start = before[-1] if before else 0
    kept, clause = clause[:start], clause[start:]
    verb = first_word(clause)
    if not may_act(verb):
        return None
    gone = _TAKEN_BACK.match(after)
    other = after[gone.end() :] if gone else after
    if not other.strip():
        return f"{kept}don't {bare(clause)}" if gone or alone else None
    orders = gone or _FORBIDS.match(other) or may_act(first_word(other))
    if not orders or _BESIDE.match(other) or _ALSO.search(other):
        return None
    start = clause.lower().find(verb)
    about = clause[start + len(verb) :].strip(" ,-–—") if _POINTS.search(other) else ""
    return f"{kept}{about} - {other}" if about else f"{kept}{other}"
