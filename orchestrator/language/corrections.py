"""Corrections: who says "cancel order 5520, no wait, 5521" takes the first value back, and means the second.

What is corrected is read as it is meant, "cancel order 5521", before anything else is. Where it is not clear what a
correction takes back, the text stays as it is.
"""

import re
from functools import lru_cache
from itertools import islice

from orchestrator.language.modes import CHANGING
from orchestrator.language.people import INFORMING, MAILING, one_of
from orchestrator.language.quoted import masked
from orchestrator.language.reports import SIGN, reports
from orchestrator.language.statements import only_states
from orchestrator.language.verbs import may_act
from orchestrator.language.words import MAX_CUT, bare, first_word, words_in

_LEAD = r"(?:\s{0,3}(?<![,;.…])[,;.…]{1,9}|\s[-–—]+|\s?—)\s*(?:(?:oh|ah|uh|um|er|oops|hmm|and|but)[,\s]+)*"
_GONE = (
    r"(?:no[,.!…]*\s+wait|(?:no[,.!…]*\s+)?(?:scratch that|(?<=[,.;!…–—-]\s)(?:forget (?:it|that)"
    r"|never ?mind(?:\s(?:it|that|this))?(?=\s*(?:[,.;!–—-]|\Z)))))"
)
_TAKES_BACK = (
    rf"(?P<gone>{_GONE}(?:[,.!…]*\s+{_GONE})*)|no[,.!…]*\s+(?:sorry|i meant?)"
    r"|(?:sorry[,.]?\s+)?(?<!\b(?:by|if|do|as)\s)(?<!\b(?:that|what|when)\s)(?<!\bwhich\s)"
    r"i mean(?:t(?!(?<=\w i meant)(?<!sorry i meant)\s+to\s(?!say\b)(?-i:[a-z])))?(?:\s+to say)?"
    r"|nein,? (?:warte|ich meine?)|ich meinte?|no,? espera|quiero decir|non,? attends?|je veux dire"
)
"""Says of itself, wherever it stands, that it takes something back; "the order I meant to cancel" does not."""
_BEHIND_A_MARK = (
    r"wait[,.…]*\s+(?:no|sorry|actually)|wait(?=[,.…]*\s+(?:do not|don['’]?t|(?:keep|leave) it)\b)"
    r"|sorry(?=[,.…]*\s+(?:do not|don['’]?t)\s*(?:[.!]|\Z))|strike that|correction(?=[,:])|or rather"
    r"|actually(?:,?\s+no)?|no(?:pe)?(?=,)|(?P<thing>no)(?=\s[a-z]+\s#?\d)"
)
"""Says so behind a mark."""
_VALUE_BEFORE = r"wait(?=,)|sorry|(?P<make>make (?:it|that))|rather|nein|perdón|pardon"
"""Says so behind a mark and before a value."""
_CUES = frozenset(
    """no nope wait sorry mean meant scratch never nevermind forget strike correction rather make actually nein meint
    meinte quiero perdón non veux pardon""".split()
)
"""Of which a correction has one."""
_MARK = re.compile(
    rf"(?i)(?:(?:{_LEAD}|\s)(?:{_TAKES_BACK})|{_LEAD}(?:(?:{_BEHIND_A_MARK})|(?P<value>{_VALUE_BEFORE})))"
    r"\b(?:(?:\s*[,:;.!…]+|\s[-–—]+|—)?\s+|[.!…]*\Z)"
)
_FILLER = re.compile(r"(?i)\A(?:(?:only|just|actually,?|it['’]s|it is|the right one is)\s+)*")
_MAKE = re.compile(r"(?i)\Amake (?:it|that)\s+")
_TO = re.compile(r"(?i)\Ato\s+")
_ASKS = rf"\b{one_of('ask', 'call', *INFORMING, *MAILING)} [\w#@]+"
_TOLD = re.compile(r"(?i)\b(?:saying|says?|said)\Z")
_TELLS = re.compile(rf"(?i){_ASKS}(?: an? \w+)?\Z")
"""Behind it stands what somebody is told, or what something is called."""
_TELLS_SO = re.compile(rf"(?i){_ASKS} \w")
_MEANT_TO = re.compile(r"(?i)\W*(?:sorry[,.]?\s+)?i meant\s+to\s+(?P<verb>[a-z]+)")
_RUNS_ON = re.compile(r"\s\w")
"""A mark without a sign before it."""
_ANSWERS = re.compile(r"\b(?:Yes|No|Maybe|Sorry)\Z")
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
_BESIDE = re.compile(r"(?i)first\b|see you\b")
_ALSO = re.compile(
    r"(?i)(?:(?!\s(?:and|but|then)\s)[^,.;:!?\n])*?"
    r"(?:\balso\b|,?\s\bas well\b(?! as)|,?\stoo(?=\s*(?:[,.;!?\n]|\Z)))"
)
"""An order beside the one before: "refund ch_4 as well"."""
_ENDS = re.compile(r"(?i)\s*(?:\Z|[,.;:!?\n)]|[-–—]\s|(?:and|then|please|instead|for|from|in|at|on|to|by|with|of)\b)")
"""Behind a value that stands for itself: no noun, which it would count or describe."""
_CLOSES = re.compile(r"\A,(?=\s(?:about|at|by|for|from|in|into|of|on|to|with)\b)")
_SAID = re.compile(rf"(?:(?!\s(?:and|then)\b){SIGN})*", re.IGNORECASE)
_PHRASE = re.compile(rf"(?i)(?P<first>[a-z]+)\s{_SAID.pattern}")
_WAYS = r"(?:at|by|for|from|in|into|of|on|to|until|with)\b"
_UNIT = re.compile(rf"\s(?!(?:and|or)\b|{_WAYS})[a-z]+\b")
_THING = re.compile(rf"(?i)\b(?!{_WAYS})(?P<kind>[a-z]+)\s#?[\w.:-]*\d[\w-]*")
_CHUNK = re.compile(rf"(?i)\s{_WAYS}(?:(?!\s{_WAYS}).)+")
_ARTICLES = frozenset("a an her his my our that the their your".split())
_THEY = frozenset("first he i it she they this we you".split())
_ONE = re.compile(r"(?i)\bones?\b")
_TAKEN_BACK = re.compile(
    r"(?i)(?:(?:do not|don['’]?t)(?:\s(?:do (?:it|that)|bother|cancel))?"
    r"|(?:keep|leave) (?:it|that|this|them|him|her)(?:\s(?:alone|as (?:it )?is|be|for now|there))?"
    r"|never ?mind(?:\s(?:it|that|this))?|(?:forget|ignore) (?:it|that|this)|hold (?:off|on)|wait)\s*(?:[,.;!]\s*|\Z)"
)
_FORBIDS = re.compile(r"(?i)(?:please )?(?:do not|don['’]?t)\b")
_POINTS = re.compile(r"(?i)\b(?:it|its|them|their|(?:that|this)(?=\s*(?:[,.;:!?]|\Z)))\b")
_JOINT = re.compile(r"(?i)(?:,|\s)\s*(?:and|but)\s+")
_SENTENCE = re.compile(r"[.!?\n]\s+|\n|,\s+(?:and\s+)?then\s+|\s+then\s+")
_ACTS = frozenset("complete ignore leave".split())
"""What an order may begin with, too."""
_CHANGES = CHANGING | _ACTS
MOST = 8
"""What may correct in a text is looked at so often, and so many corrections are read."""


@lru_cache(maxsize=8)  # A task is read by routing and by planning.
def corrected(text: str) -> str:
    """The text without what it takes back, and with what it says instead in its place."""
    if len(text) > MAX_CUT or _CUES.isdisjoint(words_in(text)):
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
        if _is_said(mark, clause) or any(begin <= mark.start() < end for begin, end in reports(text)):
            continue
        if not clause.strip() or (mark["make"] and (only_states(clause) or not may_act(first_word(clause)))):
            continue  # "It is called 'Mug', make it 'Cup'" corrects nothing.
        done = _instead(clause, _FILLER.sub("", text[mark.end() :]), mark)
        if done is not None:
            return head + done
    return None


def _is_said(mark: re.Match[str], clause: str) -> bool:
    """Whether it is what somebody is told, or one of the answers in a list: "tell him sorry, I meant to call", "play
    Yes, No, Maybe"."""
    meant = _MEANT_TO.match(mark.string, mark.start())
    if meant and _TELLS_SO.search(clause):
        return meant["verb"].lower() != first_word(clause)
    if _RUNS_ON.match(mark.group()):
        return bool(_TOLD.search(clause) or (not mark["gone"] and _TELLS.search(clause)))
    return mark.group().strip(" ,") == "No" and bool(_ANSWERS.search(clause))


def _instead(clause: str, after: str, mark: re.Match[str]) -> str | None:
    """The clause with what is said behind the mark in the place of what that takes back."""
    to = _TO.match(after)
    own = after[to.end() :] if to else after
    if mark["thing"]:
        return _thing(clause, own)
    done = _phrase(clause, after) if to and _is_place(own, clause, mark) else None
    if done is None and not _FORBIDS.match(own):
        done = _value(clause, _MAKE.sub("", own))
    if done is None and not mark["value"]:
        done = _thing(clause, own) or _phrase(clause, own) or _order(clause, own, mark)
    return done


def _is_place(own: str, clause: str, mark: re.Match[str]) -> bool:
    """Whether "to" stands before whom or where, and before no verb: "assign it to Ana by Friday, no, to Bob"."""
    word = own.partition(" ")[0]
    if mark["value"]:
        return any(shape.match(own) for shape in _SHAPES)
    return not may_act(word) or f" to {word} " in clause


def _value(clause: str, after: str) -> str | None:
    """A value in the place of the last one of its kind: "order 5520, no, 5521"."""
    verb = first_word(clause)
    begin = clause.lower().find(verb) + len(verb) if may_act(verb) else 0
    for shape in _SHAPES:
        new = shape.match(after)
        old = [found for found in shape.finditer(clause, begin) if not may_act(found.group().lower())] if new else []
        if not new or not old or (" " in new.group() and may_act(first_word(new.group()))):
            continue
        start, end = old[-1].span()
        if new.group() == clause[start:end]:
            return None
        if (unit := _UNIT.match(after, new.end())) and clause.startswith(unit.group(), end):
            return clause[:start] + after[: unit.end()] + _rest(clause[end + len(unit.group()) :], after[unit.end() :])
        if _ENDS.match(after, new.end()):
            return clause[:start] + new.group() + _rest(clause[end:], after[new.end() :])
    return None


def _rest(before: str, after: str) -> str:
    """What stood behind a value, but what is said anew behind the other: "50 to Ana on Friday, no, 60 to Bob"."""
    after = _CLOSES.sub("", after)
    said = _SAID.match(after)
    return _without(before, said.group() if said else "") + after


def _without(before: str, said: str) -> str:
    """Without the parts that begin like one of what is said: " to Ana on Friday" without " to Bob"."""
    words = said.lower().split()
    return _CHUNK.sub(lambda chunk: "" if chunk.group().split()[0].lower() in words else chunk.group(), before)


def _thing(clause: str, after: str) -> str | None:
    """A thing with a number in the place of another of its kind: "my order 12, no, order 13"."""
    new = _THING.match(after)
    if new is None or not _ENDS.match(after, new.end()):
        return None
    old = [found for found in _THING.finditer(clause) if found["kind"].lower() == new["kind"].lower()]
    return clause[: old[-1].start()] + new.group() + _rest(clause[old[-1].end() :], after[new.end() :]) if old else None


def _phrase(clause: str, after: str) -> str | None:
    """Words in the place of those that begin with the same word: "in Berlin, no, in Munich"."""
    new = _PHRASE.match(after)
    if new is None or new["first"].lower() in _THEY or may_act(new["first"].lower()) or _ONE.search(new.group()):
        return None
    old = [found.start() for found in re.finditer(rf"(?i)\b{re.escape(new['first'])}\b", clause)]
    if not old:
        return None
    others = _CHUNK.search(clause, old[-1] + len(new["first"])) if new["first"].lower() not in _ARTICLES else None
    kept = _without(clause[others.start() :], new.group()) if others else ""
    return f"{clause[: old[-1]]}{new.group()}{kept}{after[new.end() :]}"


def _order(clause: str, after: str, mark: re.Match[str]) -> str | None:
    """Another order in the place of the one before, or none: "cancel 5521 - no wait, refund it". What would change
    something is not done where the mark alone takes it back: "cancel 5521 - no wait, she wants it"."""
    before = [joint.end() for joint in _JOINT.finditer(clause) if may_act(first_word(clause[joint.end() :]))]
    start = before[-1] if before else 0
    kept, clause = clause[:start], clause[start:]
    verb = first_word(clause)
    if not _acts(verb):
        return None
    gone = _TAKEN_BACK.match(after)
    other = after[gone.end() :] if gone else after
    if not other.strip():
        return f"{kept}don't {bare(clause)}" if gone or mark["gone"] else None
    if not (gone or _FORBIDS.match(other)):
        orders = _acts(first_word(other))
        if _BESIDE.match(other) or (orders and not mark["gone"] and _ALSO.match(other)):
            return None
        if not orders:
            surely = mark["gone"] and not _RUNS_ON.match(mark.group()) and verb in _CHANGES
            return f"{kept}don't {bare(clause)}{_SAID.sub('', other, count=1)}" if surely else None
    start = clause.lower().find(verb)
    about = clause[start + len(verb) :].strip(" ,-–—") if _POINTS.search(other) else ""
    return f"{kept}{about} - {other}" if about else f"{kept}{other}"


def _acts(word: str) -> bool:
    return may_act(word) or word in _ACTS
