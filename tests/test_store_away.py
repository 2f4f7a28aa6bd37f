"""A Qdrant server that hangs, fails or is missing: routes use the tools at hand, and imports wait for it."""

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from orchestrator import RouteHint, Router, RouteRequest, Store
from orchestrator.errors import StoreUnavailable
from orchestrator.store.qdrant import retries
from orchestrator.store.qdrant.rest import Connections
from tests.catalogues import sample
from tests.loopback import served
from tests.qdrant_front import Engine, QdrantFront, qdrant_front
from tests.stores import FILES, MAIL, by_server, shipped

TOOLS = (*sample(), *MAIL, *FILES)
SEMANTIC = RouteRequest(query="send an email", tenant="local", route_hint=RouteHint.SEMANTIC)
KEYWORD = RouteRequest(query="read the text of a file", tenant="local", route_hint=RouteHint.KEYWORD)


@pytest.fixture
def front() -> Iterator[QdrantFront]:
    with qdrant_front() as front:
        yield front


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A route and an import soon give up on one request."""
    monkeypatch.setattr("orchestrator.runtime.index_cache.PATIENCE_S", 0.3)
    monkeypatch.setattr(retries, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(retries, "LONGEST_WAIT_S", 0.05)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


async def _page(scope: Scope, receive: Receive, send: Send) -> None:
    await HTMLResponse("<h1>It works</h1>")(scope, receive, send)


def _answering(answer: Callable[[socket.socket], object]) -> socket.socket:
    """Start a server that treats each connection in this way, until it is closed."""
    listening = socket.create_server(("127.0.0.1", 0))

    def treat(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            answer(connection)

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=treat, args=listening.accept()[:1], daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return listening


def _tls() -> socket.socket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("aNULL:@SECLEVEL=0")  # Without a certificate.
    return _answering(lambda connection: context.wrap_socket(connection, server_side=True))


def _http2() -> socket.socket:
    """A server of HTTP/2 alone, as gRPC's port is: it begins with its settings."""
    return _answering(lambda connection: connection.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])))


@pytest.mark.usefixtures("impatient")
async def test_a_hung_server_is_not_said_to_load_a_new_version(front: QdrantFront) -> None:
    store = Store(front.url, embedder=shipped(), timeout_s=600)
    store.replace_server("local", "mail", MAIL)
    async with Router(store=store) as router:
        await router.route(SEMANTIC)
        front.stalled = True
        held = await router.route(SEMANTIC)
        assert held.matches[0].tool.key == "mail:send_email"
        [warning] = [own for own in held.warnings if "out of date" in own]
        assert f"the store {front.url} did not answer within" in warning


@pytest.mark.usefixtures("impatient")
def test_an_import_outlasts_a_server_that_fails_or_hangs(
    front: QdrantFront, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "orchestrator.store.tools.writer._BATCH", 4
    )  # Also a busy machine answers such a request in time.
    store = Store(front.url, embedder=shipped(), timeout_s=2)
    store.version("local")

    def recover_once_noticed() -> None:
        while "TimeoutError" not in caplog.text:
            time.sleep(0.05)
        front.stalled = False

    def trouble(done: int, _: int) -> None:
        if done == 4:
            front.failing = 3
        if done == 8:
            front.stalled = True
            threading.Thread(target=recover_once_noticed, daemon=True).start()

    changes = store.replace_servers("local", by_server(TOOLS[:20]), trouble)
    assert sum(len(change.new) for change in changes.values()) == 20
    assert len(Store(front.url, embedder=shipped(), timeout_s=120).load("local").tools) == 20
    assert "Refused" in caplog.text
    assert "TimeoutError" in caplog.text


def test_a_server_that_never_answered_is_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StoreUnavailable, match="start the server, or give another"):
        Store(f"http://127.0.0.1:{_free_port()}", embedder=shipped()).replace_server("local", "mail", MAIL)
    assert "asked again" not in caplog.text


def test_a_wrong_address_gets_the_remedy_that_fits(front: QdrantFront) -> None:
    with closing(_tls()) as tls, served(_page) as other, closing(_http2()) as http2:
        remedies = {
            front.url.replace("http://", "https://"): "write http:// if the server has no TLS",
            f"{front.url}/dashboard": "without a further path, such as http://localhost:6333",
            other: "give the address of its REST interface",
            f"http://127.0.0.1:{tls.getsockname()[1]}": "write https:// if the server has TLS",
            f"http://127.0.0.1:{http2.getsockname()[1]}": "6333, not 6334",
            f"http://127.0.0.1:{_free_port()}": "start the server, or give another",
        }
        for url, remedy in remedies.items():
            with pytest.raises(StoreUnavailable) as failure:
                Store(url, embedder=shipped(), timeout_s=30).load("local")
            assert remedy in str(failure.value), url
    front.stalled = True
    with pytest.raises(StoreUnavailable, match=r"no answer within 1 s; check whether the server is overloaded"):
        Store(front.url, embedder=shipped(), timeout_s=1).load("local")


def _drip_headers(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for number in range(600):
        connection.sendall(b"x-%d: y\r\n" % number)
        time.sleep(0.1)


def _keep_silent(_: socket.socket) -> None:
    time.sleep(60)


def _read_slowly(connection: socket.socket) -> None:
    for _ in range(600):
        connection.recv(65_536)
        time.sleep(0.1)


def test_headers_that_drip_end_at_the_timeout() -> None:
    def drip(connection: socket.socket) -> None:
        connection.recv(65_536)
        _drip_headers(connection)

    with closing(_answering(drip)) as dripping:
        store = Store(f"http://127.0.0.1:{dripping.getsockname()[1]}", embedder=shipped(), timeout_s=1)
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="no answer within 1 s"):
            store.load("local")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("be_late", "content"), [(_drip_headers, None), (_keep_silent, None), (_read_slowly, bytes(64 * 2**20))]
)
def test_a_late_request_ends_no_other(be_late: Callable[[socket.socket], object], content: bytes | None) -> None:
    arrived, is_over = threading.Semaphore(0), threading.Event()

    def answer(connection: socket.socket) -> None:
        if b"/late" in connection.recv(65_536):
            be_late(connection)
            return
        arrived.release()
        is_over.wait(60)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    with closing(_answering(answer)) as server, ThreadPoolExecutor() as pool:
        connections = Connections(f"http://127.0.0.1:{server.getsockname()[1]}", "shown", 60)
        others = [pool.submit(connections.send, "GET", "/other", None, 60) for _ in range(4)]
        for _ in others:
            assert arrived.acquire(timeout=60)
        began = time.monotonic()
        with pytest.raises(TimeoutError, match=r"no answer within 0\.5 s"):
            connections.send("PUT", "/late", content, 0.5)
        assert time.monotonic() - began < 30
        is_over.set()
        assert [other.result() for other in others] == [b"ok"] * 4
        connections.close()


def test_an_answer_that_unpacks_to_too_much_is_not_read_to_its_end() -> None:
    packed = gzip.compress(b'{"result": "' + bytes(80 * 2**20))
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    with (
        served(Response(packed, headers=headers)) as url,
        pytest.raises(StoreUnavailable, match="the answer has more than 24 MiB; check whether this is the address"),
    ):
        Store(url, embedder=shipped(), timeout_s=30).load("local")


@pytest.mark.parametrize(
    ("items", "limit"), [(b"[],", "500,000 texts, lists and objects"), (b'"",', "500,000 texts"), (b"0,", "2,000,000")]
)
def test_an_answer_of_too_many_values_is_not_read(items: bytes, limit: str) -> None:
    packed = gzip.compress(b'{"result": [' + items * 6_000_000 + b"0]}", 1)
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    with (
        served(Response(packed, headers=headers)) as url,
        pytest.raises(StoreUnavailable, match=f"the answer has more than {limit}"),
    ):
        Store(url, embedder=shipped(), timeout_s=30).load("local")


def test_a_new_process_waits_as_long_as_the_server_asks(front: QdrantFront, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_WAIT_S", 3_600)
    front.failing = 2
    front.retry_after = "0.01"
    Store(front.url, embedder=shipped(), timeout_s=30).replace_server("local", "mail", MAIL)
    assert len(Store(front.url, embedder=shipped(), timeout_s=30).load("local").tools) == 2


def test_the_reads_of_a_command_are_repeated(front: QdrantFront, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_WAIT_S", 0.01)
    front.failing = 2
    assert Store(front.url, embedder=shipped(), timeout_s=30, repeat_reads=True).load("local").tools == ()


def test_a_command_fails_soon_after_the_first_failure(front: QdrantFront, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(retries, "LIMIT_S", 0.2)
    store = Store(front.url, embedder=shipped(), timeout_s=30, repeat_reads=True)
    front.failing = 10_000
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="HTTP status 503"):
            store.load("local")
    assert len(front.requests) < 100


def test_a_repeated_request_ends_with_the_time_of_the_command(
    front: QdrantFront, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "LIMIT_S", 3.0)
    store = Store(front.url, embedder=shipped(), timeout_s=60, repeat_reads=True)
    front.failing = 1

    def stall_after_the_refusal() -> None:
        while "Refused" not in caplog.text:
            time.sleep(0.01)
        front.stalled = True

    threading.Thread(target=stall_after_the_refusal, daemon=True).start()
    with pytest.raises(StoreUnavailable, match=r"no answer within [1-3]\S* s"):
        store.load("local")


def test_a_write_ends_while_other_requests_are_answered(front: QdrantFront, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(retries, "LONGEST_WAIT_S", 0.05)
    monkeypatch.setattr(retries, "LIMIT_S", 1.0)
    store = Store(front.url, embedder=shipped(), timeout_s=30)
    store.replace_server("local", "mail", MAIL)
    answer, is_over = type(front.engine).answer, threading.Event()

    def refuse_writes(engine: Engine, method: str, path: str, sent: bytes) -> tuple[int, bytes]:
        if method == "PUT" and not is_over.is_set():
            return 503, b"{}"
        return answer(engine, method, path, sent)

    def read() -> None:
        while not is_over.is_set():
            store.version("local")

    monkeypatch.setattr(Engine, "answer", refuse_writes)
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(read)
        try:
            with pytest.raises(StoreUnavailable, match="HTTP status 503"):
                threads.submit(store.replace_server, "local", "mail", MAIL[:1]).result(timeout=60)
        finally:
            is_over.set()
        reading.result()


def test_a_failure_of_long_ago_leaves_a_later_write_its_time(
    front: QdrantFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(retries, "LIMIT_S", 1.0)
    store = Store(front.url, embedder=shipped(), timeout_s=30)
    store.replace_server("local", "mail", MAIL)
    front.failing = 1
    with pytest.raises(StoreUnavailable):
        store.load("local")
    time.sleep(2.5)
    front.failing = 1
    store.replace_server("local", "mail", MAIL[:1])
    assert len(store.load("local").tools) == 1


def test_records_that_make_a_large_answer_are_read_in_parts(
    front: QdrantFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(front.url, embedder=shipped(), timeout_s=30).replace_servers("local", by_server(TOOLS))
    monkeypatch.setattr("orchestrator.common.bounded_http.MOST_BYTES", 16 * 2**10)
    assert len(Store(front.url, embedder=shipped(), timeout_s=30).load("local").tools) == len(TOOLS)


def test_a_full_disk_is_named_and_not_repeated(front: QdrantFront, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(front.url, embedder=shipped(), timeout_s=30)
    store.replace_server("local", "mail", MAIL)
    full = b'{"status": {"error": "Service internal error: No space left on device"}}'
    monkeypatch.setattr("tests.qdrant_front.Engine.answer", lambda *_: (500, full))
    front.requests.clear()
    with pytest.raises(StoreUnavailable, match=r"No space left on device; free space on the server's disk"):
        store.replace_server("local", "mail", MAIL[:1])
    assert len(front.requests) == 1
