"""Opposites: verbs one of which undoes the other. Words and vectors alone take "resume it" for "pause it"."""

from functools import lru_cache

from orchestrator.text import stem

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
)


def _both_ways() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for verb, others in _PAIRS:
        for other in others.split():
            found.setdefault(stem(verb), set()).add(stem(other))
            found.setdefault(stem(other), set()).add(stem(verb))
    return {verb: frozenset(others) for verb, others in found.items()}


_OPPOSITES = _both_ways()


@lru_cache(maxsize=1_000)
def opposites(verb: str) -> frozenset[str]:
    """The stems of the verbs that undo this one, a word of any form."""
    return _OPPOSITES.get(stem(verb.lower()), frozenset()) if verb.isascii() else frozenset()
