"""What a first line hands over: behind "post this in #general:" stands a message, and none of its sentences is a task.

Only verbs that move, send or reword things hand over; behind "get me the following:" stands what is asked for.
"""

import re

from orchestrator.index.text import says
from orchestrator.language.people import INFORMING, MAILING, one_of
from orchestrator.language.verbs import may_act

_REWORDING = "proofread rephrase rewrite shorten summarise summarize translate".split()
_MOVING = (
    *_REWORDING,
    *"add append archive attach categorise categorize classify convert copy enter file forward format import".split(),
    *"insert log note paste publish put record save share store submit turn upload".split(),
)
_SENDING = (*MAILING, *"announce answer comment message notify post reply respond".split())
_MAKING = "compose create draft file log make open prepare raise write".split()
_VERB = re.compile(
    r"(?i)(?:\A|[.!?;,]\s|\b(?:and|then|please|just|me|you|to)\s)"
    rf"(?P<verb>{'|'.join((*_MOVING, *_SENDING, *_MAKING))})\s(?P<what>(?:[^.!?;]|[.!?;]\b)+)\Z"
)
"""The verb of a line's last sentence, behind "please", "can you" and the like."""
_POINTING = r"(?:this|these|those|it|him|her|them|(?:the\s)?following)\b"
_POINTS = re.compile(rf"(?i)\b{_POINTING}")
_OF_THAT = re.compile(rf"(?i)\b(?:from|with|for|of|as|using)\s{_POINTING}")
_PLACE = re.compile(r"(?i)\b(?:to|in|into|on|under|as)\s")
_SOMEBODY = re.compile(r"(?i:(?:back|with|the|my|our|his|her|their|all|every\w*)\b)|[A-Z@#]")
_APART = re.compile(r"\n\s{0,9}\n(?:(?P<next>(?i:(?:and\s)?(?:then|after that|afterwards))\b)|(?P<word>[a-z]+)\b)")
_FORBIDDING = frozenset("but do don dont just never no only".split())
_FIRST_WORD = re.compile(r"(?i)[^\w\n\"“„«]*(?:please\s)?([a-z]+)")
"""Of a line that quotes nothing."""
_MAKES_ONE = re.compile(rf"(?i){_POINTING}\s(?:into\s)?an?\s")
_ASKING = frozenset("what who whom whose when where why how which is are do does did can could never don dont".split())
_LEAST_TOLD = 2
"""Terms of a line that is a task by itself; one is enough where it rewords what stands behind."""
_LONGEST_LINE = 300
_LEADS = (
    r"(?:\A\W{0,3}|[.!?;,]\s|\n"
    r"|\b(?:and|then|please|just|(?:can|could|will|would) you|(?:have|like|need|want|you) to)\s)(?!(?-i:POST))"
)
_NOBODY = r"(?:to\s)?(?:me|us)\b|only\b|with\b|\d{1,2}\b"
_NOTE = r"an?\s(?:[\w-]+\s){0,2}(?:comment|dm|e-?mail|message|note|notice|reminder|reply|sms|text|update)\b"
_SENDS = (
    rf"(?!send\s(?:channel\s)?message:\s{one_of(*INFORMING, *'ask get let reach write'.split())}\b)"
    rf"{one_of(*MAILING, *'announce comment forward message notify ping post send tell tweet'.split())}"
    rf"\s(?!{_NOBODY}|(?!{_NOTE}|an?\s\w+\sto\s)an?\s)"
)
"""Behind it stands to whom or where, but in "mail 2:", "tell me:", "send an invoice:", and in the "send message: tell
Ana" that `sending.py` writes."""
_WITHIN = (
    r"in\s(?:[#@]|(?:the\s(?!following|style)|(?:my|our|his|her|their)\s)\w"
    r"|(?:case|channel|chat|issue|thread|ticket)\b)"
)
_ANSWERS = (
    rf"(?:answer|reply|respond)\s(?!{_NOBODY}|(?!{_WITHIN})in\b|\w+ly\b|(?:an?|as|now|true|yes)\b|this:"
    r"|(?:to\s)?(?:the|this|these|my)\s(?:\w+\s)?(?:query|queries|questions?|requests?|tasks?)\b)"
)
_WRITES = (
    rf"write\s(?:(?:back|below|beneath|on|to|under)\b(?!\s(?:me|us)\b)|{_WITHIN}|[#@]\w|[\w.+-]+@\w"
    r"|(?:him|her|them|everyone|everybody|all)\b|(?:my|our|his|their)\s\w|the\s(?!following\b)\w|(?-i:[A-Z][a-z])"
    r"|(?!(?:down|out|up):)\w+(?=:))"
)
_WITH = r"with\b(?!\s(?:an?\s|the\s|this\s)?(?:caption|comment|message|note|text|words)\b)"
_TOLD_INLINE = re.compile(
    rf"(?i){_LEADS}(?:{_SENDS}|{_ANSWERS}|{_WRITES})"
    rf"(?:(?!\s{_WITH})[^.!?,;:\n\"'’“„«‘`]|\.\b|(?<=\w)['’](?=\w)"
    r"|,\s(?:and\s)?(?=(?-i:[A-Z])|[@#]|\S{1,40}@)){0,60}"
    r"(?<!\bto)(?<!\bfrom)(?<!\bcc)(?<!subject):[^\S\n](?P<said>(?=\w)[^\n]+)"
)
"""Behind "post this in #general: ..." the rest of a line is what is posted."""
_FIELD = re.compile(
    r"(?i)[:,]\s?(?:(?:to|cc)\s\S+@\S|(?:to|cc|subject|body|text|title|signers?|attachments?):"
    r"|(?:subject|body|title)\s[\"“„«'‘])"
)
"""Another value beside the message, or in its place: ", cc bo@example.org", ": subject 'hi'"."""
_THING = re.compile(r"\S+@\S+|\S+\.[A-Za-z]{2,4}|and|&")
"""An address or a file."""
_BETWEEN = re.compile(r"[,;\s]+")
_SENTENCE = re.compile(r"[.!?;][^\S\n]+|\s[-–—]\s(?=(?:please|then)\b)")
_MARKS = " :.!?"
_NOTING = frozenset("add enter log note record".split())
_LONGEST_NOTE = 80
_EMPTY = re.compile(r"\n\s{0,9}\n\s*")
_ALSO = re.compile(r"(?i)(?:and\s)?(?:then|after that|afterwards|also|additionally)\b")
_SIGNED = re.compile(
    r"(?i)(?:many\s)?(?:thanks|thank you|cheers|sincerely|yours|(?:\w+\s)?(?:regards|wishes)|best)\W{0,3}\n"
)
_YOUR = re.compile(r"(?i)\byours?\b")
"""A message speaks to its readers; who asks for something speaks of what is his own."""


def handed_over(text: str) -> tuple[int, int] | None:
    """From where to where a text holds what its first line hands over; None where it does not.

    It begins behind the writer's own next tasks, and ends with the text or where the writer goes on behind an empty
    line: with "then", or with a task or "don't" in lower case, as hardly a paragraph of a mail begins.
    """
    if inline := _behind_colon(text):
        return inline
    line, _, behind = text.partition("\n")
    line = line.rstrip()
    if len(line) > _LONGEST_LINE or not behind.strip() or not (line.endswith(":") or _stands_apart(line, behind)):
        return None
    if (found := _VERB.search(line.rstrip(_MARKS))) is None:
        return None
    start = len(text) - len(behind.lstrip())
    if not line.endswith(":"):
        start = _behind_own(text, start, rewords=found["verb"].lower() in _REWORDING)
    end = next((apart.start() for apart in _APART.finditer(text, start) if _goes_on(apart)), len(text))
    lines = _lines(text[start:end])
    return (start, end) if lines and _hands_over(line.rstrip(_MARKS), found, lines) else None


def told_inline(text: str) -> tuple[int, int] | None:
    """From where to where a text holds a message behind a colon, without the values beside it (", subject: ...")."""
    if (inline := _behind_colon(text)) is None:
        return None
    start, end = inline
    field = _FIELD.search(text, start - len(": "), end)
    end = field.start() if field else end
    return (start, end) if start < end else None


def _behind_colon(text: str) -> tuple[int, int] | None:
    """From where to where a text hands over behind a colon: up to where the writer goes on, with a task or "then", and
    within a longer text at the end of the sentence. Addresses and files alone are no message."""
    inline = _TOLD_INLINE.search(text) if ":" in text else None
    if inline is None or _is_of_things(inline["said"]):
        return None
    start, end = inline.span("said")
    for stop in _SENTENCE.finditer(inline.string, start, end):
        rest = inline.string[stop.end() : end]
        word = _FIRST_WORD.match(rest)
        if (
            inline.start()
            or _ALSO.match(rest)
            or (word and may_act(word[1].lower()) and not rest.lower().startswith("please"))
        ):
            return start, stop.start()
    return start, end


def _is_of_things(said: str) -> bool:
    """Whether addresses and files are all that is said."""
    return all(_THING.fullmatch(one) for one in _BETWEEN.split(said) if one)


def is_noted(text: str, start: int, end: int) -> bool:
    """Whether what is handed over is one short line that is put down and no task: the task is about just that."""
    found = _VERB.search(text.partition("\n")[0].rstrip(_MARKS))
    noted, said = found is not None and found["verb"].lower() in _NOTING, text[start:end].strip()
    return noted and len(said) <= _LONGEST_NOTE and "\n" not in said and not _mostly_tasks([said])


def _behind_own(text: str, first: int, *, rewords: bool) -> int:
    """Behind the paragraphs that are tasks of the writer's own, not of what is handed over."""
    start = first
    while start < len(text):
        empty = _EMPTY.search(text, start)
        own = text[start : empty.start() if empty else len(text)]
        if not all(_ALSO.match(line) or _may_be_own(line, rewords) for line in _lines(own)):
            break
        start = empty.end() if empty else len(text)
    return first if _SIGNED.match(text, start) else start


def _may_be_own(line: str, rewords: bool) -> bool:
    return not (rewords or _YOUR.search(line)) and _mostly_tasks([line])


def _lines(text: str) -> list[str]:
    return [said for said in text.split("\n") if said.strip()]


def _stands_apart(line: str, behind: str) -> bool:
    """Whether a sentence ends with the line, and an empty one follows."""
    return line.endswith((".", "?", "!")) and not behind.partition("\n")[0].strip()


def _goes_on(apart: re.Match[str]) -> bool:
    return bool(apart["next"]) or may_act(apart["word"]) or apart["word"] in _FORBIDDING


def _hands_over(line: str, found: re.Match[str], lines: list[str]) -> bool:
    """Whether a line hands over these; tasks only where it says what becomes of them ("add these to my tasks:")."""
    verb, what = found["verb"].lower(), found["what"]
    if not says(line, 1 if verb in _REWORDING else _LEAST_TOLD):
        return False
    if verb in _MAKING and (_OF_THAT.search(what) or (verb == "make" and _MAKES_ONE.match(what))):
        return True
    if verb not in _MOVING and verb not in _SENDING:
        return False
    place, points = _PLACE.search(what), _POINTS.search(what)
    if (points and (place or verb in _REWORDING)) or (place and place.start() == 0):
        return True
    return bool(points or (verb in _SENDING and _SOMEBODY.match(what))) and not _mostly_tasks(lines)


def _mostly_tasks(lines: list[str]) -> bool:
    """Whether half of the lines begin with what may be an action, or ask something."""
    first = [found[1].lower() for line in lines if (found := _FIRST_WORD.match(line))]
    return 2 * sum(may_act(word) or word in _ASKING for word in first) >= len(lines)
