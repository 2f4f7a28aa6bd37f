"""Wording: how the words of a query stand around a name. "use X to" names X clearly, "with X" less so."""

import re

_WORD = re.compile(r"@?[^\W_][\w.+&'’/-]*[\w+]|[^\W_]|,")
_ARTICLES = frozenset("the my our your this that a an only just".split())
VERBS = frozenset("use using with via through ask call leverage".split())
PLACES = frozenset("from on in inside within by into to".split())
_NOUNS = frozenset("connector integration plugin".split())
_CUES = _NOUNS | frozenset("use using mcp server".split())
"""A strong form has one of these, or an @."""
_LIST = frozenset(", and or nor &".split())
_PURPOSE = frozenset("to for".split())
_NEGATED = re.compile(
    r"(?:^|\s)(?:without|except|excluding|avoid|skip|never|neither|nor|don['’]?t"
    r"|instead of|rather than|other than|anything but"
    r"|(?<!is )(?<!are )(?<!was )(?<!were )(?<!be )(?<!has )(?<!have )(?<!did )(?<!does )(?<!if )(?<!or )(?<!can )not)"
    r"(?: (?:use|using|for|from|in|on|to|via|with|through|by|post|send|write|ask|asking|call|calling|touch|touching"
    r"|it|this|that|them|anything|the|my|our|your)){0,3}$"
)


class Wording:
    """A query's words, as said and in lower case, commas among them, and what stands around a place."""

    def __init__(self, text: str) -> None:
        found = list(_WORD.finditer(text))
        self.said = [word.group() for word in found]
        self._spans = [word.span() for word in found]
        self.words = [word.lower().strip("'’.") or "." for word in self.said]
        self.has_cue = not _CUES.isdisjoint(self.words)

    def word(self, place: int) -> str:
        """The word here, "" beyond the end."""
        return self.words[place] if 0 <= place < len(self.words) else ""

    def is_capital(self, place: int) -> bool:
        """Whether the word here is capitalised, and not for being the first."""
        return place > 0 and self.said[place][0].isupper()

    def before(self, place: int) -> str:
        """The nearest word before this place that is no article; over "X and" in "use X and" as well."""
        place -= 1
        while self.word(place) in _ARTICLES:
            place -= 1
        if self.word(place) in _LIST and self.word(place - 2) in VERBS:
            place -= 2
        return self.word(place)

    def after_list_mark(self, place: int) -> int:
        """The place after a comma, "and", or both; the same place where there is none."""
        while self.word(place) in _LIST:
            place += 1
        return place

    def is_strong(self, start: int, end: int, *, ordinary: bool) -> bool:
        """Whether words[start:end] stand as in "use X to", "X mcp", "from the X server", "@X" or "don't use X."."""
        before, after = self.before(start), self.word(end)
        if self.words[start].startswith("@") or after == "mcp":
            return True
        if after == "server":
            return before in VERBS or before in ("from", "no") or self.is_negated(start)
        if after in _NOUNS:
            return not ordinary or before in VERBS
        if before in ("use", "using") and (after in _PURPOSE or (after == "and" and not ordinary)):
            return True
        return before in ("use", "using", "via") and self.ends(end) and self.is_negated(start)

    def ends(self, place: int) -> bool:
        """Whether a sentence or a part of it ends here: "don't use X." is clear, "don't use X rays" is not."""
        return self.word(place) in ("", ",") or self.is_capital(place)

    def is_negated(self, start: int) -> bool:
        """Whether the words before leave this name out: "without X", "don't use X", "not in X", "instead of X"."""
        return self._negation(start) < start

    def is_left_out(self, start: int, end: int) -> bool:
        """The same for words[start:end], also by a part that is nothing but "no X" or "nothing on X"."""
        begin = self._begin_of_part(start)
        alone = begin < start and self.word(begin - 1) in ("", ",", "please")
        return self.is_negated(start) or (alone and (self.ends(end) or self.word(end) == "please"))

    def left_out(self, start: int, end: int) -> tuple[int, int]:
        """Where the text leaves words[start:end] out, in characters: from the negation to the name's end."""
        while self.word(end) in _CUES:
            end += 1
        begin = self._negation(start)
        if begin == start:
            begin = self._begin_of_part(start)
        return self._spans[begin][0], self._spans[end - 1][1]

    def _begin_of_part(self, start: int) -> int:
        """The place of "no" or "nothing on" before this name; `start` where neither stands there."""
        if self.word(start - 1) == "no":
            return start - 1
        nothing = self.word(start - 2) == "nothing" and self.word(start - 1) in PLACES | {"via"}
        return start - 2 if nothing else start

    def _negation(self, start: int) -> int:
        """The place where the words begin that leave this name out; `start` where none do."""
        window = self.words[max(0, start - 4) : start]
        found = _NEGATED.search(" ".join(window))
        return start - len(found.group().split()) if found else start
