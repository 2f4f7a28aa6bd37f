"""The audit log: one JSON line for each search, call, read, approval, acceptance, sign-in and change of configuration.

A line records the actor, the action, the tool and the result. It contains no task, no argument and no result text. Each
line has a number and the SHA-256 of the line before, and a second file names the last line. So a changed or removed
line is detected, unless somebody rewrites all later lines as well.

Several processes may write the same log. Each line is written under a lock, by a thread of the process.
"""

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from orchestrator import telemetry
from orchestrator.common.digests import digest
from orchestrator.common.keys import split_key
from orchestrator.common.lines import as_json
from orchestrator.common.regular import regular
from orchestrator.errors import InvalidConfig
from orchestrator.trust.audit_chain import (
    HEAD,
    LONGEST_LINE,
    Head,
    Verified,
    line_digest,
    parsed,
    verified,
)

logger = logging.getLogger(__package__)

MAX_BYTES = 10 * 2**20
"""The size at which a new file begins."""
MAX_FILES = 20
"""The number of files that are kept."""
_FILE = "audit.jsonl"
_LOCK = "lock"
WAIT_S = 60.0
"""Seconds that a line waits for the lock. `toolroute audit verify` holds it while it reads the whole log."""
_LONGEST_NAME = 300
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
        # Python waits for its lines before it ends.
        self._writer = ThreadPoolExecutor(1, "toolroute audit")

    @classmethod
    def named(cls, location: str) -> "Audit | None":
        """Return the log of the setting `audit`, or None for `off`."""
        if location == "off":
            return None
        from platformdirs import user_data_path

        return cls(Path(location) if location else user_data_path("toolroute") / "audit")

    @property
    def files(self) -> list[Path]:
        """The log's files, the oldest first."""
        return [
            *sorted(self.folder.glob("audit-*.jsonl")),
            *filter(Path.exists, [self.folder / _FILE]),
        ]

    def note(self, entry: Entry) -> None:
        """Have a thread write the line, because another process may hold the lock while this one serves others."""
        self._writer.submit(self.write, entry, datetime.now(UTC))

    def flush(self) -> None:
        """Wait until the lines that were noted are written."""
        self._writer.submit(int).result()

    def write(self, entry: Entry, at: datetime | None = None) -> None:
        """Write a line, and emit it as an OpenTelemetry log record. The log of toolroute has a line that fails.

        Args:
            entry: The line.
            at: The time of the event. Default: the present.
        """
        self.write_all([entry], at)

    def write_all(self, entries: Iterable[Entry], at: datetime | None = None) -> None:
        """Write the lines of one event together, so that the disk is waited for once."""
        lines = [self._fields(entry, at or datetime.now(UTC)) for entry in entries]
        if not lines:
            return
        try:
            # Somebody may have removed the folder since the last line.
            self.check()
            with self._locked():
                self._append(lines)
        except (OSError, InvalidConfig) as error:
            for line in lines:
                logger.error(
                    "a line of the audit log in %s was not written (%s of %s): %s: %s",
                    self.folder,
                    line["event"],
                    line["tenant"],
                    error,
                    as_json(line),
                )

    @staticmethod
    def _fields(entry: Entry, at: datetime) -> dict[str, Any]:
        """Return the fields of a line, and emit them."""
        fields = {
            name: value[:_LONGEST_NAME] if isinstance(value, str) else value
            for name, value in asdict(entry).items()
        }
        telemetry.logged(f"toolroute.audit.{entry.event}", fields)
        return {
            "at": at.isoformat(timespec="milliseconds"),
            **fields,
            "ms": round(entry.ms, 1),
        }

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
        self.flush()
        for _, line in self._lines():
            fields = parsed(line)
            if fields is not None:
                yield fields

    def verify(self) -> Verified:
        """Look for lines that were changed or removed. Raises InvalidConfig for a file that cannot be read."""
        self.flush()
        was_written = (self.folder / _LOCK).exists()  # The first line makes it.
        if not (was_written or self.files or Head.read(self.folder)):
            return Verified(0, 0, ())
        with self._locked():
            result = verified(self._lines(), Head.read(self.folder))
        if not (result.lines or result.problems):
            return Verified(
                0, 0, ("the audit log is empty, but lines were written to it: they were removed",)
            )
        return result

    def _lines(self) -> Iterator[tuple[str, bytes]]:
        """Yield each line with its place."""
        for path in self.files:
            with _reading(path) as file:
                # A file that is damaged may be one long line. No line that was written is longer than this limit.
                lines = iter(partial(file.readline, LONGEST_LINE), b"")
                for number, line in enumerate(lines, start=1):
                    yield f"{path.name}, line {number}", line

    def _append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        head = Head.read(self.folder)
        for fields in lines:
            head = self._with_line(fields, head)
        if head:
            head.write(self.folder)

    def _with_line(self, fields: Mapping[str, Any], head: Head | None) -> Head:
        """Append a line to the file. Return the head that names it."""
        with open(self.folder / _FILE, "a+b", opener=regular) as file:
            last = _last_line(file)
            last_fields = parsed(last)
            last_number = last_fields["n"] if last_fields else 0
            number = max(last_number, head.number if head else 0) + 1
            previous = line_digest(last) if last else head.digest if head else ""
            record = json.dumps({"n": number, **fields, "prev": previous}, ensure_ascii=True)
            line = f"{record}\n".encode()
            was_cut = last and not last.endswith(b"\n")
            file.write(b"\n" + line if was_cut else line)
            file.flush()
            is_full = file.tell() > MAX_BYTES
        # After the line, so that the file that is put aside ends with its last number.
        first = head.first if head else 1
        if is_full:
            first = self._begin_another_file(number, first)
        return Head(number, line_digest(line), first)

    def _begin_another_file(self, last_number: int, first: int) -> int:
        """Put the full file aside, named by the number of its last line. Return the number of the first kept line."""
        (self.folder / _FILE).rename(self.folder / f"audit-{last_number:012}.jsonl")
        for old in sorted(self.folder.glob("audit-*.jsonl"))[:-MAX_FILES]:
            first = int(old.stem.partition("-")[2]) + 1
            old.unlink()
        for unfinished in self.folder.glob(f"{HEAD}.*.tmp"):  # Of writers that were killed.
            unfinished.unlink(missing_ok=True)
        return first

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from portalocker import Lock, LockException, LockFlags

        flags = LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING
        lock = Lock(self.folder / _LOCK, "a+b", WAIT_S, 0.002, flags=flags, opener=regular)
        try:
            lock.acquire()
        except LockException:
            raise InvalidConfig(
                f"the audit log was locked by another process for {WAIT_S:g} seconds; try again"
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


def _last_line(file: BinaryIO) -> bytes:
    """Return the last line of a file with its line end, or an empty value for an empty file."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - LONGEST_LINE))
    lines = file.read().splitlines(keepends=True)
    file.seek(0, os.SEEK_END)
    return lines[-1] if lines else b""
