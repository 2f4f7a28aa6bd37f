"""Whole results that are too long for a history, which contains a cut result. They are kept for their tenant and passed
on as references.

If the worker's client has external storage, the results are kept there, as long as it keeps them. Otherwise they are
files in the store, for a week, with at most 256 MiB per tenant. The oldest are removed first.
"""

import asyncio
import errno
import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter

from orchestrator.catalogue.tokens import count_tokens
from orchestrator.common.digests import digest
from orchestrator.common.regular import Irregular
from orchestrator.errors import InvalidInput
from orchestrator.records.call import PageRequest, ResultPage
from orchestrator.temporal.workflow.payload import MAX_RESULT_BYTES

REFERENCE = "toolroute-result:"
"""The beginning of a reference. An argument that begins with it is replaced by the text."""
KEPT_S = 7 * 24 * 3600.0
"""Seconds for which a file is kept: a run that waits for a person may last days."""
MOST_BYTES = 256 * 1024 * 1024
"""The size of a tenant's files, so that one tenant cannot fill the disk."""
MOST_REFERENCE = 2_048
"""The maximum number of bytes of a reference. A larger payload was not put into the external storage."""
_FILE = re.compile(r"[0-9a-f]{32}")
"""The name of a file. A reference comes from a history or a model, and must not name another file."""


class Results:
    """Keeps texts by tenant. `root` returns the store's folder when a file has to be written or read."""

    def __init__(self, root: Callable[[], str | Path]) -> None:
        self._root = root

    async def keep(self, tenant: str, text: str) -> str:
        """Store a text and return its reference. It raises OSError if the folder cannot be written."""
        text = text.encode("utf-8", "replace").decode()
        converter = _external()
        if converter is not None:
            [payload] = await converter.encode([{"tenant": tenant, "text": text}])
            if payload.ByteSize() <= MOST_REFERENCE:
                return f"{REFERENCE}/{urlsafe_b64encode(payload.SerializeToString()).decode()}"
        return REFERENCE + await asyncio.to_thread(self._write, tenant, text)

    async def text(self, tenant: str, reference: str) -> str:
        """Return the text of a reference.

        Raises:
            InvalidInput: The tenant has no text with this reference.
        """
        location = reference.removeprefix(REFERENCE)
        text = await (
            _fetched(tenant, location[1:])
            if location.startswith("/")
            else self._read(tenant, location)
        )
        if text is None:
            raise InvalidInput(
                f"result {reference[:60]!r} not found for {tenant!r}: a worker's store keeps results for a week; share "
                "its folder with workers on other machines, or use external storage"
            )
        return text

    async def page(self, request: PageRequest) -> ResultPage:
        """Return a part of a text, from the offset on and within the tokens, with the offset of the next part."""
        text = await self.text(request.tenant, request.whole)
        start = request.offset
        most_characters = min(4 * request.max_tokens, MAX_RESULT_BYTES)
        part = _within(text[start : start + most_characters], request.max_tokens)
        end = start + len(part)
        if end >= len(text):
            return ResultPage(text=part, characters=len(text))
        return ResultPage(text=part, characters=len(text), next=end)

    async def expand(self, tenant: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with whole results instead of their references."""
        return {
            name: await self.text(tenant, value)
            if isinstance(value, str) and value.startswith(REFERENCE)
            else value
            for name, value in arguments.items()
        }

    def _folder(self, tenant: str) -> Path:
        """Return the folder of a tenant's files. Raises Irregular if a link is in the place of a folder."""
        folder = Path(self._root()) / "tenants" / digest(tenant, 32) / "results"
        for path in (folder.parent.parent, folder.parent, folder):
            _require_no_link(path)
        return folder

    def _write(self, tenant: str, text: str) -> str:
        folder = self._folder(tenant)
        name = digest(text, 32)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # Another worker may remove files at the same time.
            _sweep(folder)
        # It gets its name when it is complete, because another worker may read it.
        part = folder / f"{name}.{time.monotonic_ns()}"
        part.touch(mode=0o600)
        part.write_text(text, encoding="utf-8", newline="")
        part.replace(folder / name)
        return name

    async def _read(self, tenant: str, name: str) -> str | None:
        if not _FILE.fullmatch(name):
            return None
        try:
            return await asyncio.to_thread(_whole, self._folder(tenant) / name)
        except (FileNotFoundError, Irregular):
            return None


def _within(text: str, max_tokens: int) -> str:
    """Return the beginning of a text, with at most `max_tokens` tokens and at least one character."""
    tokens = count_tokens(text)
    while tokens > max_tokens and len(text) > 1:
        share = len(text) * max_tokens // tokens
        text = text[: max(1, share)]
        tokens = count_tokens(text)
    return text


def _require_no_link(path: Path) -> None:
    """Raise Irregular for a link: files outside of the store would be read, or removed as too old."""
    if path.is_symlink():
        raise Irregular(errno.ELOOP, "it is a link, and only folders and files are used", str(path))


def _whole(path: Path) -> str:
    _require_no_link(path)
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def _sweep(folder: Path) -> None:
    """Remove old files, and the oldest files above the maximum size."""
    bytes_left = MOST_BYTES
    oldest = time.time() - KEPT_S
    states = {path: path.lstat() for path in folder.iterdir()}
    for path in sorted(states, key=lambda path: states[path].st_mtime, reverse=True):
        bytes_left -= states[path].st_size
        if bytes_left < 0 or states[path].st_mtime < oldest:
            path.unlink(missing_ok=True)


def _external() -> DataConverter | None:
    """Return the client's converter if it has external storage, set to store results of any size."""
    # Outside of an activity, or in a test's activity without a client.
    with suppress(RuntimeError):
        converter = activity.client().data_converter
        if storage := converter.external_storage:
            return replace(converter, external_storage=replace(storage, payload_size_threshold=0))
    return None


async def _fetched(tenant: str, encoded: str) -> str | None:
    """Return a text from the external storage. None if it belongs to another tenant or is not a result."""
    converter = _external()
    if converter is None:
        return None
    try:
        payload = Payload.FromString(urlsafe_b64decode(encoded))
        [stored] = await converter.decode([payload], [dict])
        return str(stored["text"]) if stored["tenant"] == tenant else None
    except Exception as error:
        activity.logger.warning("a result could not be read from the external storage: %r", error)
        return None
