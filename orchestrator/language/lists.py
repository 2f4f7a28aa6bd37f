"""Lists: the tasks of "1) ... 2) ..." each on a line of its own, without the marks, which are no words of the task."""

import re

_BULLET = re.compile(r"^[^\S\n]*(?:[-•*–][^\S\n]+(?:\[[ xX]?\][^\S\n]+)?|\[[ xX]?\][^\S\n]+)", re.MULTILINE)
_NUMBER = re.compile(
    r"(?i)(?<!\S)(?:step\s|task\s)?\(?(?:(\d{1,2})(?:\)|[.:/-](?=\s))|([a-h])\))\s*(?!and\b|or\b)(?=[\w\"'“@#$])"
)
"""What may number an item, 1. or 1) or (1) or 1- or a) or step 1:, and no reference: "as in (1) and (2)"."""


def without_list_marks(text: str) -> str:
    """The text with each item of a list on its own line. Numbers are marks only where they count up from one."""
    text = _BULLET.sub("", text)
    for mark in reversed(numbered(text)):
        text = f"{text[: mark.start()].rstrip(' ')}\n{text[mark.end() :]}"
    return text.strip()


def numbered(text: str) -> list[re.Match[str]]:
    """The marks of its numbered items; none where there are fewer than two."""
    marks: list[re.Match[str]] = []
    for mark in _NUMBER.finditer(text):
        if _counted(mark) == len(marks) + 1 and (marks or _opens(mark)):
            marks.append(mark)
    return marks if len(marks) > 1 else []


def _counted(mark: re.Match[str]) -> int:
    number, letter = mark.groups()
    return int(number) if number else ord(letter.lower()) - ord("a") + 1


def _opens(mark: re.Match[str]) -> bool:
    """Whether a list may begin here: "1." behind a word ("close issue 1. Then ...") ends a sentence."""
    before = mark.string[max(0, mark.start() - 2) : mark.start()].rstrip(" ")
    return ")" in mark.group() or not before or before[-1] in ".:;,!?\n"
