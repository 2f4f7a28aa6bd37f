"""A stdio server as a child process: it ends with toolroute, is read within limits, and goes with its own children."""

import asyncio
import os
import shutil
import signal
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from subprocess import DEVNULL, PIPE, Popen
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from orchestrator.common.lines import plain
from orchestrator.common.redact import Secrets
from orchestrator.mcp import faults
from orchestrator.mcp.config.launch import Launch, passed
from orchestrator.mcp.transports import npm_log
from orchestrator.mcp.transports.json_repair import repaired, request_of
from orchestrator.mcp.transports.runners import npm_cache
from orchestrator.mcp.transports.stderr import (
    cause,
    is_error,
    python_remedy,
    tells_of_unnamed_address,
)
from orchestrator.mcp.transports.streams import Pace
from orchestrator.trust.server_texts import STDERR_MARK

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

_SHELL = shutil.which("sh")
_WATCH = 'read -r _; kill -KILL "-$0"'
"""Kills a server and its children when the watcher's input closes, which happens however toolroute ends."""
_WATCH_RUNNER = """
read -r _; kill -TERM "-$0"; n=0
while [ $n -lt 20 ] && kill -0 "-$0" 2>/dev/null; do sleep 1; n=$((n + 1)); done
kill -KILL "-$0"
"""
"""The same for a package runner, which first removes a half-finished installation."""
_BEGIN = 'read -r _ && exec "$@"'
"""Starts the server after its watcher, so that it is watched from the first moment."""

_CHUNK = 65_536
_TAIL_CHARS = 200
_TAIL_BYTES = 65_536
_LATEST = 40
"""The last lines of standard error that are searched for the cause of a failure."""
_READ_ON = 2**20
_PAUSE_S = 0.05
"""Bytes of standard error that are read at once. A server that writes more has to wait."""
_GRACE_S = 2.0
_HASTE_S = 0.2
_POLL_S = 0.01
_ROLLBACK_S = 20.0
"""Seconds to stop. npx needed up to 9 s to remove a half-finished installation, and being killed breaks its cache."""


@contextmanager
def watched(group: int, watch: str = _WATCH) -> Iterator[None]:
    """Return a command that kills its process group if toolroute is killed. Requires a POSIX shell."""
    if not _SHELL:
        yield
        return
    command = [_SHELL, "-c", watch, str(group)]
    with Popen(
        command, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
    ) as watcher:
        try:
            yield
        finally:
            watcher.kill()


class Child:
    """One start of a server's command.

    Attributes:
        flaw: The reason why reading stopped, if it is the server's fault.
        pid: The process id, which leads a session. 0 before the start.
        returncode: The exit code, or the negative number of a signal.
        answered: True after the first message.
        install_failure: The reason in npm's log why a package could not be installed.
    """

    def __init__(self, pace: Pace) -> None:
        self.flaw = ""
        self.pid = 0
        self.returncode: int | None = None
        self._pace = pace
        self._stderr = b""
        self.answered = False
        self.install_failure = ""
        self._addresses: list[str] = []

    @asynccontextmanager
    async def streams(self, launch: Launch) -> AsyncIterator["TransportStreams"]:
        """Run the command with the launch's variables and the library's defaults (PATH, HOME).

        On the way out it has time to end by itself, less where it never answered.
        """
        from mcp.shared.message import SessionMessage

        started_at = time.time()
        self._addresses = launch.addresses
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        with incoming, read, write, outgoing:
            async with _running(launch) as process, anyio.create_task_group() as tasks:
                self.pid = process.pid
                try:
                    tasks.start_soon(self._listen, process.stderr)
                    tasks.start_soon(self._receive, process.stdout, incoming)
                    tasks.start_soon(_send, process.stdin, outgoing, incoming)
                    yield read, write
                finally:
                    read.close()
                    write.close()
                    with anyio.CancelScope(shield=True):
                        await anyio.lowlevel.checkpoint()  # The messages that were taken are sent.
                        await self._stop(process, launch.runner)
                        await self._look_into_npm_log(launch, started_at)
                    tasks.cancel_scope.cancel()

    async def _look_into_npm_log(self, launch: Launch, started_at: float) -> None:
        if launch.runner not in npm_log.RUNNERS or self.answered or not self.returncode:
            return
        cache = npm_cache({**os.environ, **launch.env})
        self.install_failure = await asyncio.to_thread(
            npm_log.install_failure, cache, launch.args, started_at
        )

    async def _listen(self, pipe: StreamReader) -> None:
        """Keep the last part of the standard error."""
        read = 0
        while chunk := await pipe.read(_CHUNK):
            self._stderr = (self._stderr + chunk)[-_TAIL_BYTES:]
            read += len(chunk)
            if read > _READ_ON:
                await anyio.sleep(_PAUSE_S)

    async def _receive(
        self, pipe: StreamReader, incoming: "MemoryObjectSendStream[SessionMessage | Exception]"
    ) -> None:
        """Pass messages on.

        When nobody receives them any more, keep reading for a while, so that a writing server can exit.
        """
        async with incoming:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for line in _lines(pipe):
                    if faults.is_too_much(line):
                        self.flaw = f"it sent {faults.TOO_MUCH}"
                        return
                    begin = time.thread_time()
                    message = _message(line)
                    self._pace.charge(time.thread_time() - begin)
                    self.answered = True
                    await incoming.send(message)
        for _ in range(_READ_ON // _CHUNK):
            if not await pipe.read(_CHUNK):
                break

    async def _stop(self, process: Any, runner: str) -> None:
        """Close the server's input, then send it and its children SIGTERM, then SIGKILL."""
        # A server that never answered has nothing to save.
        grace_s = _GRACE_S if self.answered else _HASTE_S
        process.stdin.close()
        try:
            await _until(lambda: process.returncode is not None, grace_s)
            self.returncode = process.returncode
            if _signal(process, signal.SIGTERM):
                patience_s = _ROLLBACK_S if runner and not self.answered else grace_s
                await _until(
                    lambda: process.returncode is not None and not _signal(process, 0), patience_s
                )
        finally:
            _signal(process, signal.SIGKILL)
        await _until(lambda: process.returncode is not None, _GRACE_S)
        # A child that left the group may keep the pipes open, and no public call closes them.
        process._transport.close()  # noqa: SLF001

    @property
    def stderr(self) -> str:
        """The last part of its standard error, secrets included."""
        return self._stderr.decode("utf-8", "replace")

    def last_words(self, secrets: Secrets) -> str:
        """Return one line with how the process ended and the cause from its standard error, redacted and shortened."""
        output = plain(self.stderr)
        lines = output.splitlines()[len(self._stderr) == _TAIL_BYTES :]
        if self.answered:  # Older lines are about earlier requests.
            lines = lines[-_LATEST:]
        # Redacted first and then shortened: half of a secret is one too.
        shortened = [_shortened(secrets.redact(line)) for line in cause(lines)]
        if self.install_failure and not any(map(is_error, shortened)):
            shortened.append(secrets.redact(self.install_failure))
        if tells_of_unnamed_address(shortened) and self._addresses:
            shortened.append(f"its entry names {' and '.join(self._addresses)}")
        text = " | ".join(shortened)
        ended = self._ending
        if not text:
            return ended
        remedy = "" if self.answered else python_remedy(output)
        return f"{ended}{remedy}{STDERR_MARK}{text}"

    @property
    def _ending(self) -> str:
        """A phrase for the way in which the process ended, "" while it runs."""
        if self.returncode is None:
            return ""
        if self.returncode < 0:
            return f"; ended by signal {-self.returncode}"
        return f"; exit code {self.returncode}"


def _shortened(line: str) -> str:
    return line if len(line) <= _TAIL_CHARS else f"{line[:_TAIL_CHARS]}..."


@asynccontextmanager
async def _running(launch: Launch) -> AsyncIterator[Any]:
    """Start the command under the watcher. The process has all three pipes, although its type allows None."""
    from mcp.client.stdio import get_default_environment

    executable = launch.executable
    # A missing program is started all the same, because the error names the reason.
    shell = [_SHELL, "-c", _BEGIN, "sh"] if _SHELL and executable else []
    process = await asyncio.create_subprocess_exec(
        *(*shell, executable or launch.command, *launch.args),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env={
            **get_default_environment(),
            **passed(os.environ, launch.runner),
            **launch.env,
            "PATH": launch.path,
        },
        cwd=launch.cwd,
        start_new_session=True,
    )
    with watched(process.pid, _WATCH_RUNNER if launch.runner else _WATCH):
        if shell and process.stdin:
            process.stdin.write(b"\n")
        yield process


async def _send(
    pipe: StreamWriter,
    outgoing: "MemoryObjectReceiveStream[SessionMessage]",
    incoming: "MemoryObjectSendStream[SessionMessage | Exception]",
) -> None:
    try:
        async for message in outgoing:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            pipe.write(f"{line}\n".encode("utf-8", "replace"))
            await pipe.drain()
    except OSError:
        await incoming.aclose()  # The session sees an end in place of a request that hangs.


def _signal(process: Any, number: int) -> bool:
    """Send a signal to a server and its children. Returns True if any of them is still running."""
    try:
        os.killpg(process.pid, number)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


async def _until(condition: Callable[[], bool], seconds: float) -> None:
    with anyio.move_on_after(seconds):
        while not condition():  # noqa: ASYNC110, a group of processes has no event
            await anyio.sleep(_POLL_S)


async def _lines(pipe: StreamReader) -> AsyncIterator[bytes]:
    """Yield each line that is not empty. The beginning of a line over the limit is yielded as the last one."""
    line = bytearray()
    while chunk := await pipe.read(_CHUNK):
        *ends, unfinished = chunk.split(b"\n")
        for end in ends:
            line += end
            whole = bytes(line)
            line.clear()  # Before the reader decodes the line: each may have 16 MiB.
            if whole:
                yield whole
        line += unfinished
        if len(line) > faults.MAX_MESSAGE_BYTES:
            yield bytes(line)
            return


def _message(line: bytes) -> "SessionMessage | Exception":
    """Return a line's message, or the error that it holds no message: that spoils the line, not the connection.

    An answer that cannot be read is an error of its request, which would otherwise wait for it in vain.
    """
    try:
        return _read_message(repaired(line))
    except ValueError:
        pass
    try:
        return _read_message(repaired(line, always=True))
    except ValueError as error:
        return _unreadable_answer(line) or error


def _unreadable_answer(line: bytes) -> "SessionMessage | None":
    """Return an error for the request that an unreadable line answers. None: the line is no answer."""
    from mcp.shared.message import SessionMessage
    from mcp.types import ErrorData, JSONRPCError

    request = request_of(line)
    if request is None:
        return None
    error = ErrorData(code=faults.LOST, message=faults.UNREADABLE)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=error))


def _read_message(line: bytes) -> "SessionMessage":
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter
    from pydantic_core import from_json

    # `validate_json` takes three times as long and four times as much memory for a long listing.
    return SessionMessage(jsonrpc_message_adapter.validate_python(from_json(line), by_name=False))
