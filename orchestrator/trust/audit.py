"""The audit log: one JSON line for each search, call, read, approval, acceptance, sign-in and change of configuration.

A line records the actor, the action, the tool and the result. It contains no task, no argument and no result text. Each
line has a number and the SHA-256 of the line before, and a second file names the last line. So a changed or removed
line is detected, unless somebody rewrites all later lines as well.

Several processes may write the same log. Each line is written under a lock.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from orchestrator import telemetry
from orchestrator.common.digests import digest
from orchestrator.common.keys import split_key
from orchestrator.common.regular import regular
from orchestrator.errors import InvalidConfig

logger = logging.getLogger(__package__)

MAX_BYTES, MAX_FILES = 10 * 2**20, 20
"""The size in bytes at which a new file begins, and the number of files that are kept."""
_FILE, _HEAD, _LOCK = "audit.jsonl", "head.json", "lock"
_WAIT_S = 5.0
_LONGEST_LINE = 64 * 2**10
_LONGEST = 300
"""The maximum number of characters of a name from a client or a server."""


EVENTS = (
    *("search", "describe", "call", "result", "resource", "prompt"),
    *("approval", "acceptance", "login", "configuration"),
)
"""The values of `Entry.event`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the audit log.

    Attributes:
        event: One of EVENTS. `result` is a further part of a call's result.
        tenant: The tenant.
        actor: The client or person, if known.
        profile: The gateway's profile, or "".
        server: The server's name.
        tool: The tool's key; several, with spaces between them, where definitions were asked for.
        arguments: The digest of a call's arguments, or of the URI or prompt that was asked for. For the approval of a
            run's step it is the digest that was approved.
        decision: The fingerprint of the search, or of the search before a call. For the approval of a run's step it is
            the run's id.
        approval: The source of a call's approval: `not needed`, `this call`, `this session`, `this tool`, `this
            server`, `kept`, `declined`, `withdrawn` or `not asked`.
        result: `ok`, or the kind of the error.
        ms: The duration in milliseconds.
        bytes: The size of the answer.
    """

    event: str
    tenant: str
    actor: str = ""
    profile: str = ""
    server: str = ""
    tool: str = ""
    arguments: str = ""
    decision: str = ""
    approval: str = ""
    result: str = "ok"
    ms: float = 0.0
    bytes: int = 0


class Verified(NamedTuple):
    """The result of a verification: the number of lines, the number of the first line, and the faults."""

    lines: int
    first: int
    problems: tuple[str, ...]


def of_step(run_id: str, key: str, approved: str, *, allowed: bool) -> dict[str, Any]:
    """Return the fields of the line about a person's word on a step of a run.

    Args:
        run_id: The run.
        key: The key of the step's tool, or "" if it is not known.
        approved: The digest of the approved call.
        allowed: False if the step was refused.
    """
    about = {"server": split_key(key)[0], "tool": key, "arguments": approved, "decision": run_id}
    return {**about, "approval": "this call" if allowed else "declined"}


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """Return the digest of a call's arguments. Equal arguments have equal digests."""
    return digest(json.dumps(arguments, sort_keys=True, default=str), 16)


class Audit:
    """An audit log in a folder, which only its user can read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def named(cls, place: str) -> "Audit | None":
        """Return the log of the setting `audit`, or None for `off`."""
        if place == "off":
            return None
        from platformdirs import user_data_path

        return cls(Path(place) if place else user_data_path("toolroute") / "audit")

    @property
    def files(self) -> list[Path]:
        """The log's files, the oldest first."""
        return [*sorted(self.folder.glob("audit-*.jsonl")), *filter(Path.exists, [self.folder / _FILE])]

    def note(self, entry: Entry) -> None:
        """Write a line, and emit it as an OpenTelemetry log record. Raises an error if the line cannot be written."""
        shown = {name: own[:_LONGEST] if isinstance(own, str) else own for name, own in asdict(entry).items()}
        telemetry.logged(f"toolroute.audit.{entry.event}", shown)
        try:
            self.check()
            with self._locked():
                self._append({**shown, "ms": round(entry.ms, 1)})
        except (OSError, InvalidConfig) as error:
            logger.error(
                "a line of the audit log in %s was not written (%s of %s): %s",
                self.folder,
                entry.event,
                entry.tenant,
                error,
            )

    def check(self) -> None:
        """Create the folder. Raises InvalidConfig if that fails."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidConfig(
                f"the audit log's folder {str(self.folder)!r} cannot be created ({error.strerror}): set "
                "TOOLROUTE_AUDIT to another folder, or to off"
            ) from None

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the lines that can be read, the oldest first. Raises InvalidConfig for a file that cannot be read."""
        for path in self.files:
            with _reading(path) as file:
                for line in file:
                    if isinstance(found := _read(line), dict):
                        yield found

    def verify(self) -> Verified:
        """Look for lines that were changed or removed. Raises InvalidConfig for a file that cannot be read."""
        was_written = (self.folder / _LOCK).exists()  # The first line makes it.
        if not (was_written or self.files or self._head()):
            return Verified(0, 0, ())
        with self._locked():
            found = self._verified()
        if not (found.lines or found.problems):
            return Verified(0, 0, ("the audit log is empty, but lines were written to it: they were removed",))
        return found

    def _verified(self) -> Verified:
        before, number, first, lines, problems = "", 0, 0, 0, list[str]()
        for path in self.files:
            with _reading(path) as file:
                for place, line in enumerate(file, 1):
                    found, lines = _read(line), lines + 1
                    at = f"{path.name}, line {place}"
                    if found is None:
                        problems.append(f"{at}: this is not a line of an audit log")
                        before = _digest(line)
                        continue
                    first = first or found["n"]
                    if number and found["n"] != number + 1:
                        problems.append(f"{at}: number {found['n']} comes after number {number}: lines were removed")
                    elif (number or found["n"] == 1) and found["prev"] != before:
                        problems.append(f"{at}: the line before it was changed")
                    before, number = _digest(line), found["n"]
        head = self._head()
        if head and first > head["first"]:
            problems.append(f"the first line has number {first} instead of {head['first']}: lines were removed")
        if head and (head["n"], head["hash"]) != (number, before):
            written = f"the last written line (number {head['n']})"
            problems.append(f"line number {number} is not {written}: lines were removed or changed")
        return Verified(lines, first, tuple(problems))

    def _append(self, fields: Mapping[str, Any]) -> None:
        with open(self.folder / _FILE, "a+b", opener=regular) as file:
            last, head = _last_line(file), self._head()
            number = max((_read(last) or {"n": 0})["n"], head["n"] if head else 0) + 1
            before = _digest(last) if last else head["hash"] if head else ""
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = json.dumps({"n": number, "at": at, **fields, "prev": before}, ensure_ascii=True).encode() + b"\n"
            file.write(b"\n" + line if last and not last.endswith(b"\n") else line)
            file.flush()
            size = file.tell()
        first = head["first"] if head else 1
        if size > MAX_BYTES:
            # Named by the number of its last line.
            (self.folder / _FILE).rename(self.folder / f"audit-{number:012}.jsonl")
            for old in sorted(self.folder.glob("audit-*.jsonl"))[:-MAX_FILES]:
                first = int(old.stem.partition("-")[2]) + 1
                old.unlink()
        (self.folder / f"{_HEAD}.new").unlink(missing_ok=True)
        with open(self.folder / f"{_HEAD}.new", "w", encoding="utf-8", opener=regular) as fresh:
            json.dump({"n": number, "hash": _digest(line), "first": first}, fresh)
        (self.folder / f"{_HEAD}.new").replace(self.folder / _HEAD)

    def _head(self) -> dict[str, Any] | None:
        try:
            with open(self.folder / _HEAD, encoding="utf-8", opener=regular) as file:
                found = json.loads(file.read(_LONGEST_LINE))
            return {"n": int(found["n"]), "hash": str(found["hash"]), "first": int(found["first"])}
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from portalocker import Lock, LockException, LockFlags

        flags = LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING
        lock = Lock(self.folder / _LOCK, "a+b", _WAIT_S, 0.002, flags=flags, opener=regular)
        try:
            lock.acquire()
        except LockException:
            raise InvalidConfig(
                f"the audit log was locked by another process for {_WAIT_S:g} seconds; try again"
            ) from None
        try:
            yield
        finally:
            lock.release()


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    try:
        with open(path, "rb", opener=regular) as file:
            yield file
    except OSError as error:
        raise InvalidConfig(
            f"a file of the audit log cannot be read: {str(path)!r} ({error.strerror}). Restore the file, or set "
            "TOOLROUTE_AUDIT to another folder"
        ) from None


def _digest(line: bytes) -> str:
    return sha256(line.rstrip(b"\n")).hexdigest()


def _read(line: bytes) -> dict[str, Any] | None:
    """Return a line's fields, or None if it is not a line of an audit log."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_line = isinstance(found, dict) and isinstance(found.get("n"), int) and isinstance(found.get("prev"), str)
    return found if is_line else None


def _last_line(file: BinaryIO) -> bytes:
    """Return the last line of a file with its line end, or an empty value for an empty file."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _LONGEST_LINE))
    lines = file.read().splitlines(keepends=True)
    file.seek(0, os.SEEK_END)
    return lines[-1] if lines else b""
