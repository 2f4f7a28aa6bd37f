"""What the words around a piece of a text say of the parameter that it is a value of."""

from collections.abc import Iterable, Sequence

from orchestrator.index.text import STOP_WORDS, stemmed
from orchestrator.language.verbs import may_act
from orchestrator.planning.parameters import CALLED, Parameter, words_of
from orchestrator.planning.pieces import Piece

_FROM = frozenset("after begin earliest from old origin sender since source src start starts".split())
_TO = frozenset("before deadline dest destination due end ends expires latest new target to until".split())
"""Words of names that say which of two values a parameter takes."""
_SAYS_FROM = frozenset(("from", "since", "after", "starting"))
_SAYS_TO = frozenset(("to", "until", "till", "before", "by", "into"))
"""What stands before such a value."""
LINKS = frozenset(("at", "for", "is", "of", "on", "to"))
"""What may stand between a parameter's name and a value that is no text: "limit of 5", "due on 2026-03-01"."""
_ELSE = frozenset("after before except not than unlike until without".split())
"""Before a thing that is only told apart: "cancel the order after order 1001"."""
_BUT = frozenset("all any anybody anything each every everybody everything nobody none nothing".split())
"""Before "but" that tells one apart: "every event but event evt_1"."""
_TIMES = frozenset(("at", "date", "datetime", "day", "on", "time", "timestamp", "when"))
_IDENTIFYING = frozenset(("code", "id", "ids", "index", "key", "line", "name", "no", "number", "page", "version"))
_BEFORE_AN_ORDER = frozenset(("and", "please", "then", "you"))
_BEFORE_ACTIONS = _BEFORE_AN_ORDER | {"to"}
_BEFORE_VERSIONS = frozenset("as for of release tag to v version".split())
_BEFORE_WHOM = frozenset(("to", "and", "or", "cc", "bcc", ""))
"""So that one of several stands for none."""
_FROM_NOW = frozenset(("in", "after"))
_LATER = frozenset(("ago", "before", "after", "from", "later"))


def stands_beside(own: Parameter, piece: Piece, others: Iterable[Parameter]) -> bool:
    """Whether the text names this parameter at the piece, or in it ("SKU-1001"), by no word that another one is called
    by, too."""
    if own.identifies and _is_told_apart(piece.before[:-1]):
        return False
    shared = words_of(others)
    if piece.kind == "identifier" and stemmed(piece.value.partition("-")[0].lower()) in {own.stems[-1]} - shared:
        return True
    words = [stemmed(word) for word in piece.before]
    if own.identifies and len(words) > 1 and words[-1] in _IDENTIFYING and words[-1] not in own.stems:
        words.pop()  # "charge id ch_3"
    if len(words) > 1 and piece.before[-1:] in CALLED and own.words[-1] not in ("name", "title"):
        words.pop()  # "the service called api"
    typed = not own.is_free and own.kind != "path"
    if typed and len(words) > 1 and words[-1] in LINKS and words[-1] not in own.stems:
        words.pop()
    whole = words[-len(own.stems) :] == own.stems
    if whole and (len(own.stems) > 1 or own.stems[-1] not in shared or words[-2:-1] == [] or words[-2] not in shared):
        return True
    telling = set(own.stems) if typed else set(own.called)
    if own.words[-1] in _IDENTIFYING:
        telling.update(own.stems[-2:-1])  # "customer 'c1'" says a `customer_id`.
    return (bool(words) and words[-1] in telling - shared) or _counts(own, piece)


def _is_told_apart(before: Sequence[str]) -> bool:
    """Whether these words say that another thing is meant than the one behind them."""
    return not _ELSE.isdisjoint(before) or ("but" in before and not _BUT.isdisjoint(before))


def _counts(own: Parameter, piece: Piece) -> bool:
    """Whether a number stands before what the parameter counts ("5 days"), and tells no time ("in 5 days")."""
    if piece.kind != "number" or not piece.behind or not own.words[-1].endswith("s"):
        return False
    tells_time = (piece.before[-1:] and piece.before[-1] in _FROM_NOW) or not _LATER.isdisjoint(piece.behind[1:])
    return stemmed(piece.behind[0]) == own.stems[-1] and not tells_time


def is_acted_on(piece: Piece) -> bool:
    """Whether an identifier stands right behind an action and is all that it is done to: "refund ch_3", and neither
    "the subscription of cus_9" nor "share Q3-2025 report"."""
    *before, verb = piece.before or ("",)
    whole = not piece.behind or piece.behind[0] in STOP_WORDS
    return may_act(verb) and _BEFORE_AN_ORDER.issuperset(before) and whole


def is_of_its_own(own: Parameter, piece: Piece) -> bool:
    """Whether a version, a pair of names or an address is the task's own thing: "python 3.11" has another's version,
    "login/logout" is a repository only where the parameter says that it takes such a pair, and "about bo@x.org" says
    nothing of who is written to, as no quote does but behind "to"."""
    if piece.kind == "repository":
        return "/" in str(own.schema.get("description")) or not {"repo", "repository"}.isdisjoint(piece.before[-1:])
    *first, last = piece.before or ("",)
    if own.shape == "email" and piece.quoted:
        return last == "to"
    if piece.kind == own.shape == "email":
        return last in _BEFORE_WHOM or may_act(last)
    if piece.kind != "version":
        return True
    return last in _BEFORE_VERSIONS or may_act(last) or any(map(may_act, first))


def points_to(own: Parameter, piece: Piece) -> bool:
    """Whether the word before the piece says what the parameter's name says: from and source, to and target."""
    words, before = set(own.words), set(piece.before[-1:])
    return bool((words & _FROM and before & _SAYS_FROM) or (words & _TO and before & (_SAYS_TO | {"in"})))


def may_be(own: Parameter, piece: Piece, *, alone: bool = False) -> bool:
    """Whether the only piece of a kind may be this parameter's: nothing points elsewhere. A text has many dates, so an
    optional one is taken only where something points to it; "to" does so where it ends a span, not where the text has
    this date `alone` ("move the start to 2026-03-01")."""
    words, before = set(own.words), set(piece.before[-1:])
    if (before & _SAYS_FROM and words & _TO) or (before & _SAYS_TO and words & _FROM):
        return False
    if own.required or own.kind not in ("date", "datetime", "time"):
        return True
    points = points_to(own, piece) and not (alone and before == {"to"})
    return points or (words <= _TIMES and not before & (_SAYS_FROM | _SAYS_TO))


def is_labelled(own: Parameter, piece: Piece, named: frozenset[str] | set[str]) -> bool:
    """Whether a number is a thing's and the parameter an amount ("pay invoice 44"). `named`: what the tool is about and
    the stems of its other parameters."""
    if piece.kind != "number" or not piece.before or not _IDENTIFYING.isdisjoint(own.words):
        return False
    *before, label = piece.before
    acts = may_act(label) and _BEFORE_ACTIONS.issuperset(before)  # "refund 30"
    return not acts and stemmed(label) in named and named.isdisjoint(own.stems)
