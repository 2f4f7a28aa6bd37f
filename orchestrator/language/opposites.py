"""Opposites: verbs one of which undoes the other, and words that turn a verb round. Words and vectors alone take
"resume it" for "pause it".
"""

import re
from functools import lru_cache

from orchestrator.index.text import stem
from orchestrator.language.reports import SIGN
from orchestrator.language.verbs import may_act
from orchestrator.language.words import bare, first_word

_PAIRS = (
    ("pause", "resume continue unpause"),
    ("suspend", "resume reinstate"),
    ("stop", "start begin resume"),
    ("close", "open reopen"),
    ("lock", "unlock"),
    ("enable", "disable"),
    ("activate", "deactivate"),
    ("reactivate", "deactivate"),
    ("archive", "restore unarchive"),
    ("mute", "unmute"),
    ("block", "unblock"),
    ("ban", "unban"),
    ("freeze", "unfreeze"),
    ("hide", "show unhide"),
    ("pin", "unpin"),
    ("star", "unstar"),
    ("like", "unlike dislike"),
    ("follow", "unfollow"),
    ("subscribe", "unsubscribe"),
    ("publish", "unpublish"),
    ("share", "unshare"),
    ("assign", "unassign"),
    ("link", "unlink"),
    ("mount", "unmount"),
    ("attach", "detach"),
    ("connect", "disconnect"),
    ("install", "uninstall"),
    ("grant", "revoke"),
    ("approve", "reject decline"),
    ("accept", "reject decline"),
    ("increase", "decrease reduce lower"),
    ("raise", "lower"),
    ("encrypt", "decrypt"),
    ("join", "leave"),
    ("deposit", "withdraw"),
    ("buy", "sell"),
    ("merge", "close reject decline revert"),
    ("create", "close delete remove"),
    ("add", "delete remove"),
)
UNDOING = frozenset("reverse revert rollback undo unwind".split())
"""What takes a deed back, whichever it was."""
ENDING = frozenset(
    """abandon abort cancel decommission delete deny destroy discard discontinue end erase interrupt kill purge quit
    reject remove rescind retract revoke scrap stop terminate trash uninstall void wipe withdraw""".split()
)
"""What leaves less than there was, or ends what goes on."""
MAKING = frozenset(
    """activate add apply approve assign ban block book buy charge create deploy deposit enroll execute grant insert
    install invite issue launch make merge mute open order pay place play post publish purchase refund register release
    renew request reserve resume return run schedule send share sign start submit subscribe transfer trigger
    upload""".split()
)
"""What begins or brings about what may be ended: no tool that does this does what ends it."""
_ENDS = re.compile(
    rf"(?i)(?:call\s(?:{SIGN}{{1,60}}?\s)?off|turn\s(?:{SIGN}{{1,60}}?\s)?down|get\srid\sof|(?:back|opt)\sout\sof)\b"
)
_TAKES_BACK = re.compile(rf"(?i)(?:(?:roll|take)\s(?:{SIGN}{{1,60}}?\s)?back|back\s(?:{SIGN}{{1,60}}?\s)?out)\b")


TURNS = {"on": "off", "off": "on", "in": "out", "out": "in", "up": "down", "down": "up"}
"""Each word that turns a verb to the one that turns it round."""
_TURNED = re.compile(
    rf"(?i)(?:check|clock|dial|log|power|scale|sign|switch|turn|zoom)\s(?:(?P<at_once>{'|'.join(TURNS)})\b"
    rf"|{SIGN}{{1,60}}?\s(?P<behind>{'|'.join(TURNS)})"
    r"(?=\s*(?:[,.;:!?\n]|\Z)|\s(?:and|at|for|from|in|now|please|then|to|until)\b))"
)


def turned(text: str) -> str:
    """What turns the verb that a text begins with, right behind it or behind its object: "on" of "turn the light on";
    "" where nothing does."""
    found = _TURNED.match(bare(text))
    return (found["at_once"] or found["behind"]).lower() if found else ""


def takes_back(text: str) -> bool:
    """Whether what a text begins with takes a deed back: "undo the refund", "roll the release back"."""
    own = bare(text)
    return own.partition(" ")[0].lower() in UNDOING or _TAKES_BACK.match(own) is not None


def _both_ways() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for verb, others in _PAIRS:
        for other in others.split():
            found.setdefault(stem(verb), set()).add(stem(other))
            found.setdefault(stem(other), set()).add(stem(verb))
    return {verb: frozenset(others) for verb, others in found.items()}


_OPPOSITES = _both_ways()


_SHORTEST_UNDONE = 6
"""Letters: "unsilence" undoes, "unite" and "unlist" may not."""


@lru_cache(maxsize=1_000)
def opposites(verb: str) -> frozenset[str]:
    """The stems of the verbs that undo this one, a word of any form; of any verb in "un-" what stands behind that."""
    if not verb.isascii():
        return frozenset()
    found, own = _OPPOSITES.get(stem(verb.lower()), frozenset()), verb.lower()
    return found | {stem(own[2:])} if own.startswith("un") and len(own) > _SHORTEST_UNDONE else found


def ends(text: str) -> bool:
    """Whether what a text begins with ends something or leaves less than there was: "cancel", "call off"."""
    return first_word(text) in ENDING or _ENDS.match(bare(text)) is not None


def undone_by(verb: str) -> str:
    """The stem of the verb that one in "un-" undoes: of "unpublish" publish; "" for any other."""
    return stem(verb[2:]) if verb.startswith("un") and may_act(verb[2:]) else ""
