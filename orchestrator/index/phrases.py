"""Known forms of what a tool's texts must not say: praise that asks to be chosen, and instructions to the model.

Patterns are tried on texts as `folded` gives them, so accents, full-width and look-alike letters hide nothing; they are
folded themselves. Each was held against real catalogues: `python -m benchmarks.flagged`.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import accumulate

_LOOK_ALIKE = ("асеорхуѕіјһԁАВСЕНІЈКМОРЅТХΑΒΕΖΗΙΚΜΝΟΡΤΧο", "aceopxysijhdABCEHIJKMOPSTXABEZHIKMNOPTXo")


def folded(text: str) -> str:
    """The text without accents, invisible characters and letters that only look like Latin ones."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", text)
    unseen = "".join(char for char in set(plain) if unicodedata.category(char) in ("Mn", "Cf"))
    return plain.translate(str.maketrans(*_LOOK_ALIKE, unseen))


def unfolded(text: str, span: tuple[int, int]) -> str:
    """The part of a text that a span of its `folded` form came from."""
    ends = list(accumulate(len(folded(char)) for char in text))
    return text[bisect_right(ends, span[0]) : bisect_left(ends, span[1]) + 1]


@dataclass(frozen=True, slots=True)
class Form:
    """A pattern, and hints: without one of them in the text, in lower case, the pattern cannot match."""

    pattern: re.Pattern[str]
    hints: frozenset[str]


def _form(pattern: str, *hints: str) -> Form:
    return Form(re.compile(folded(pattern), re.IGNORECASE), frozenset(folded(hint).lower() for hint in hints))


def first_of(forms: Iterable[Form], plain: str, hints: Collection[str] | None = None) -> re.Match[str] | None:
    """The first form's match in a folded text; only forms of these hints are tried, where they are given."""
    tried = (form for form in forms if hints is None or not form.hints.isdisjoint(hints))
    return next((match for form in tried if (match := form.pattern.search(plain))), None)


_TOOLS = "(?:tools?|functions?|servers?|apis?|plugins?|mcps?)"
_ME = f"(?:me|it|this(?: {_TOOLS})?)"
_ALL = "(?:every|any|all|each)"
_EVERY = f"{_ALL}(?: single)?(?: of)?(?: the)?(?: user'?s?)?(?: possible)?"
_REQUESTS = "(?:requests?|quer(?:y|ies)|tasks?|questions?|prompts?|messages?|conversations?|situations?|purposes?)"
_CONDITION = (
    "when|if|for|to|before|after|with|in|on|as|only|first|instead|once|unless|where|while|at|by|rather|and|or|,|`|\\("
)
"""What makes "always use this tool" ordinary: it goes on to say for what."""
_END = '(?= *(?:[.,;!。，、；！"\\n]|$))'
_STOP = _END.replace(",", "").replace("，", "").replace("、", "")
"""Without the comma, behind which often stands for what."""
_THIS = (
    *("use this", "use me", "use it", "call this", "call me", "call it", "invoke this", "choose", "prefer", "pick me"),
    *("select me", "select this"),
)
_OTHER = ("other tool", "other function", "other server", "other api", "other plugin", "other mcp")

_ELSEWHERE = (
    _form(
        r"\bignorier\w* (?:sie )?(?:alle )?(?:die )?(?:anderen|übrigen) (?:werkzeuge|tools|funktionen)\b", "ignorier"
    ),
    _form(rf"\b(?:immer|stets|nur) dieses (?:werkzeug|tool){_STOP}", "dieses werkzeug", "dieses tool"),
    _form(r"\bignor\w+ (?:a )?(?:todas )?(?:las )?(?:demás|otras) herramientas\b", "herramientas"),
    _form(rf"\bsiempre (?:\w+ )?esta herramienta{_STOP}", "esta herramienta"),
    _form(r"\bignor\w+ (?:tous )?les autres outils\b", "autres outils"),
    _form(rf"\btoujours (?:\w+ )?cet outil{_STOP}", "cet outil"),
    _form(r"\bignor\w+ (?:todas )?as (?:outras|demais) ferramentas\b", "ferramentas"),
    _form(r"\bignor\w+ (?:tutti )?gli altri strumenti\b", "altri strumenti"),
    _form(r"\bигнорируй\w* (?:все )?(?:остальные|другие|прочие)\b", "игнорируй"),
    _form(rf"\bвсегда \w+ этот инструмент{_STOP}", "этот инструмент"),
    _form("(?:忽略|忽视|无视|無視|不要使用|不要调用)(?:所有|任何)?(?:的)?其他(?:的)?(?:工具|函数|函式|插件)", "其他"),
    _form(f"(?:总是|始终|永远|務必|务必|一律)(?:选择|使用|调用|選擇)(?:这个|此|本|该|這個)工具{_STOP}", "工具"),
    _form("(?:他|ほか)のツール(?:は|を)(?:すべて|全て)?(?:無視|使わないで|使用しないで)", "のツール"),
    _form("다른 도구(?:를|는|들을)? ?(?:모두 )?(?:무시|사용하지 마)", "다른 도구"),
)
"""To be chosen, and not the others, in other languages."""

PRAISE = (
    _form(
        rf"\b(?:always|only|must|should|please)\b[^.!?\n]{{0,25}}?\b(?:choose|pick|select|prefer|use|call) "
        rf"(?:me|this {_TOOLS}|it)\b(?! *(?:{_CONDITION}))",
        *_THIS,
    ),
    _form(
        rf"\b(?:use|call|choose|pick|select|prefer|invoke) {_ME}\b[^.!?\n]{{0,20}}"
        rf"\b(?:for|on|in|with) {_EVERY} {_REQUESTS}\b",
        *_THIS,
    ),
    _form(r"\balways (?:choose|pick|select|prefer) (?:me|this)\b", *_THIS, "pick this"),
    _form(
        rf"\b(?:prefer|choose|select|pick|use) {_ME}(?: one)?,? (?:over|instead of|rather than) "
        rf"(?:the|{_ALL})(?: of the)? ?(?:others?|rest|alternatives?)\b",
        *_THIS,
        *("select it", "pick it", "pick this"),
    ),
    _form(
        rf"\b(?:ignore|avoid|disregard|never use|do not use|don'?t use|instead of) {_EVERY}?\s?(?:the )?"
        rf"other {_TOOLS}\b",
        *_OTHER,
    ),
    _form(
        rf"\bother {_TOOLS} (?:are|is) (?:\w+ )?"
        r"(?:deprecated|broken|outdated|unsafe|obsolete|unreliable|disabled|worse)\b",
        *_OTHER,
    ),
    _form(rf"\bother {_TOOLS} (?:must|should|may|can) ?(?:not|never) be (?:used|called|chosen)\b", *_OTHER),
    _form(rf"\b(?:prior to|before) {_ALL}(?: of the)? other {_TOOLS}\b", *_OTHER),
    _form(
        rf"\b(?:better than|best of|superior to|outperforms?|beats?|supersedes?) {_ALL}(?: the)?(?: other)? "
        rf"(?:{_TOOLS}|alternatives?|others)\b",
        *("better than", "best of", "superior to", "outperform", "beat", "supersede"),
    ),
    _form(
        r"\b(?:this (?:one|tool)|it|me),? and (?:no|none|nothing)(?: of the)? (?:others?|else)\b",
        *("and no", "and none", "and nothing"),
    ),
    _form(
        r"\b(?:whatever|no matter what|regardless of(?: what)?) (?:the |your )?"
        rf"(?:user|client|customer|task|request|query|question)s?(?: (?:is|asks?|wants?|needs?|says?))?(?: for)?{_END}",
        *("whatever", "no matter what", "regardless of"),
    ),
    *_ELSEWHERE,
)
_MARKS = "important|system|admin|hidden|override|critical"
ORDERS = (
    _form(f"</?(?:{_MARKS})>", "<important", "<system", "<admin", "<hidden", "<override", "<critical"),
    _form(
        r"\b(?:ignore|disregard|forget|override) (?:all |any )?(?:of )?(?:the |your )?"
        r"(?:previous|prior|above|earlier|other|system) (?:instructions?|prompts?)",
        *("instruction", "prompt"),
    ),
    _form(
        r"\b(?:do not|don'?t|never|without) (?:tell|mention|inform|notify|reveal)(?:ing)?"
        r"(?: this| it| that| anything)?(?: to)? (?:the )?users?\b",
        *("tell the user", "tell user", "telling", "mention", "reveal", "inform the user", "informing", "notify"),
    ),
    _form(
        rf"\bbefore (?:using|calling|invoking|you (?:use|call)) (?:any|this|the|other|any other|another) {_TOOLS}"
        r"[^.\n]{0,40}\b(?:read|send|open|fetch|cat|copy|pass|upload|include)\b",
        *("before using", "before calling", "before invoking", "before you "),
    ),
    _form(
        r"~/\.(?:ssh|aws|cursor|config|gnupg|kube|netrc|npmrc)\b|\bid[_ ](?:rsa|ed25519)\b|/etc/(?:passwd|shadow)\b",
        *("~/.", "id_rsa", "id rsa", "id_ed25519", "id ed25519", "/etc/"),
    ),
    _form(r"\b(?:your|the) system prompt\b", "system prompt"),
    _form(r"<\|[a-z_]{3,20}\|>|<</?SYS>>", "<|", "<<"),
    _form(
        r"\[/?INST\]|\[(?:SYSTEM|ADMIN)\]|#{2,} *(?:system |new )?instruction:",
        *("[inst", "[/inst", "[system", "[admin"),
        "instruction:",
    ),
    _form(r"\b(?:you are now in|developer mode)\b", "you are now in", "developer mode"),
    _form(
        r"\bnotes? (?:to|for)(?: the| all)? (?:(?:ai|llm)s?(?: agents?)?|assistants?|models?) *[:,]",
        "note to",
        "note for",
        "notes ",
    ),
    _form(r"\bdo (?:this|so|it) (?:silently|secretly|covertly)\b", "silently", "secretly", "covertly"),
    _form(
        r"\b(?:put|pass|paste|append|attach|send|include)\b(?:[^.\n]|\.(?=\w)){0,60}"
        r"\ball (?:of )?(?:the |your )?(?:users?'?s? )?(?:api keys|private keys|passwords|credentials)\b",
        *("api keys", "private keys", "passwords", "credentials"),
    ),
    _form(
        r"\bmust (?:pass|include|send|put|paste) (?:the )?(?:full|entire|whole|complete) conversation\b", "conversation"
    ),
    _form("(?:忽略|无视|忘记)(?:之前|以上|前面|先前)的?(?:所有)?(?:指令|指示|提示)", "指令", "指示", "提示"),
    _form("不要(?:告诉|告知|通知)用户", "用户"),
)
BLOCK = re.compile(rf"<({_MARKS})>.*?(?:</\1>|$)", re.IGNORECASE | re.DOTALL)

HINTS = tuple(sorted({hint for form in (*PRAISE, *ORDERS) for hint in form.hints}))
