"""The chain of an audit log: each line has a number and the digest of the line before, and a head names the last line.

    audit.jsonl    {"n": 16, ..., "prev": "1f0c..."}
                   {"n": 17, ..., "prev": "c0ff..."}      c0ff... is the SHA-256 of line 16
    head.json      {"n": 17, "hash": "9be2...", "first": 1}

A writer that is killed leaves a line that is cut off, or a line that the head does not name yet. Neither is a fraud.
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.common.atomic_file import replace_file
from orchestrator.common.regular import regular

HEAD = "head.json"
LONGEST_LINE = 64 * 2**10
"""A longer line or head is not one that toolroute wrote, and it is not read into memory."""


class Verified(NamedTuple):
    """The result of a verification: the number of lines, the number of the first line, and the faults."""

    lines: int
    first: int
    problems: tuple[str, ...]


class Head(NamedTuple):
    """The last line that was written, by its number and its digest, and the number of the first line that is kept."""

    number: int
    digest: str
    first: int

    @classmethod
    def read(cls, folder: Path) -> "Head | None":
        """Return the head. None if there is none, or if it is damaged."""
        try:
            with open(folder / HEAD, encoding="utf-8", opener=regular) as file:
                fields = json.loads(file.read(LONGEST_LINE))
            return cls(int(fields["n"]), str(fields["hash"]), int(fields["first"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, folder: Path) -> None:
        fields = {"n": self.number, "hash": self.digest, "first": self.first}
        replace_file(folder / HEAD, json.dumps(fields), private=True)


def line_digest(line: bytes) -> str:
    return sha256(line.rstrip(b"\n")).hexdigest()


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return a line's fields, or None if it is not a line of an audit log."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_line = (
        isinstance(fields, dict)
        and isinstance(fields.get("n"), int)
        and isinstance(fields.get("prev"), str)
    )
    return fields if is_line else None


def verified(lines: Iterable[tuple[str, bytes]], head: Head | None) -> Verified:
    """Return whether the lines follow each other, from the first that is kept to the one that the head names.

    Args:
        lines: Each line with its place.
        head: The head.
    """
    problems = list[str]()
    count = first = number = 0
    previous = damaged = ""
    was_cut = False
    is_named = head is None
    for where, line in lines:
        count += 1
        fields = parsed(line)
        if fields is None:
            if damaged:
                problems.append(f"{damaged}: this is not a line of an audit log")
            damaged = where
            was_cut = not line.endswith(b"\n")
            previous = line_digest(line)
            continue
        # A line that a killed writer left is named by the next one.
        if damaged and fields["prev"] != previous:
            problems.append(f"{damaged}: this is not a line of an audit log")
        damaged = ""
        first = first or fields["n"]
        if number and fields["n"] != number + 1:
            problems.append(
                f"{where}: number {fields['n']} comes after number {number}: lines were removed"
            )
        elif (number or fields["n"] == 1) and fields["prev"] != previous:
            problems.append(f"{where}: the line before it was changed")
        number = fields["n"]
        previous = line_digest(line)
        is_named = is_named or (
            head is not None and (number, previous) == (head.number, head.digest)
        )
    if damaged and not was_cut:
        problems.append(f"{damaged}: this is not a line of an audit log")
    if head is not None and first > head.first:
        problems.append(
            f"the first line has number {first} instead of {head.first}: lines were removed"
        )
    if head is not None and not is_named:
        written = f"the last written line (number {head.number})"
        problems.append(f"line number {number} is not {written}: lines were removed or changed")
    return Verified(count, first, tuple(problems))
