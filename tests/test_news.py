"""News of a folder: a reader learns of a write without opening it, and never anything that a fresh reader would not."""

import random
from pathlib import Path

import numpy as np
import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.embed import StaticEmbedder
from orchestrator.records.tool import Tool
from orchestrator.store.news import MOST_NAMED, MOST_TOOLS, News, Write
from orchestrator.store.qdrant import Qdrant
from orchestrator.store.store import SHARED, Store, Stored
from tests.catalogues import tool
from tests.stores import FILES, MAIL, shipped, smaller_model

NEWS = ".toolroute.news.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def opened(folder: Path) -> Store:
    return Store(folder, embedder=shipped(), timeout_s=5)


def some_tools(server: str, count: int, edition: object = 0) -> list[Tool]:
    return [tool(f"{server}:tool_{n}", f"Edition {edition} of {n}") for n in range(count)]


def assert_same(one: Stored, other: Stored) -> None:
    assert (one.tools, one.version, one.note) == (other.tools, other.version, other.note)
    assert one.tools == Catalogue(one.tools).tools
    if one.vectors is None or other.vectors is None:
        assert one.vectors is other.vectors
    else:
        np.testing.assert_array_equal(one.vectors, other.vectors)


def test_a_write_is_read_at_once_while_somebody_holds_the_folder(folder: Path) -> None:
    reader, writer = opened(folder), opened(folder)
    writer.replace_servers("org:1", {"mail": MAIL, "files": FILES})
    earlier = reader.load("org:1")
    writer.replace_server("org:1", "files", [FILES[1], tool("files:read_file", "Read a file aloud")])
    writer.replace_server("org:2", "mail", MAIL)
    writer.replace_server("org:1", "web", [tool("web:search", "Search the web")])
    with Qdrant(str(folder), 5).opened():
        renewed = reader.renewed("org:1", earlier)
        assert reader.is_current("org:1", renewed.version)
        assert reader.renewed("org:1", renewed) is renewed
    assert len(renewed.tools) == 5
    assert_same(renewed, opened(folder).load("org:1"))


def test_whatever_is_written_a_reader_that_follows_reads_what_a_fresh_one_does(folder: Path) -> None:
    chance = random.Random(7)
    writers = [opened(folder), opened(folder)]
    readers = {tenant: opened(folder) for tenant in ("org:1", "org:2", SHARED)}
    known = {tenant: reader.load(tenant) for tenant, reader in readers.items()}
    for number in range(40):
        writer, tenant = chance.choice(writers), chance.choice(["org:1", "org:1", "org:2", SHARED])
        server = chance.choice(["a", "b", "c"])
        if chance.random() < 0.2:
            writer.remove_server(tenant, server)
        else:
            writer.replace_server(tenant, server, some_tools(server, chance.randrange(5), chance.choice([0, number])))
        for name in chance.sample(sorted(readers), 2):
            known[name] = readers[name].renewed(name, known[name])
            assert_same(known[name], opened(folder).load(name))


def test_a_write_that_is_too_much_to_be_told_is_read_from_the_folder(folder: Path) -> None:
    reader, writer = opened(folder), opened(folder)
    writer.replace_server("org:1", "mail", MAIL)
    earlier = reader.load("org:1")
    writer.replace_server("org:1", "s", some_tools("s", MOST_TOOLS + 1))
    assert_same(reader.renewed("org:1", earlier), opened(folder).load("org:1"))
    assert (folder / NEWS).stat().st_size < 1_000


def test_old_news_go_before_the_file_grows(folder: Path) -> None:
    writer = opened(folder)
    for number in range(6):
        writer.replace_server("org:1", "s", some_tools("s", 100, number))
    assert (folder / NEWS).read_text().count("Edition 3 of 99") == 0
    assert (folder / NEWS).read_text().count("Edition 5 of 99") == 1


@pytest.mark.parametrize("content", ["", "{", "[1]", '["x", [["y", [{"points": 3}]]]]', '["x", [[1, [{}]]]]'])
def test_news_that_cannot_be_read_are_passed_over(folder: Path, content: str) -> None:
    reader, writer = opened(folder), opened(folder)
    writer.replace_server("org:1", "mail", MAIL)
    earlier = reader.load("org:1")
    writer.replace_server("org:1", "mail", MAIL[:1])
    (folder / NEWS).write_text(content)
    assert reader.renewed("org:1", earlier).tools == MAIL[:1]
    writer.replace_server("org:1", "mail", MAIL)
    assert reader.load("org:1").tools == Catalogue(MAIL).tools


def test_news_of_before_a_write_that_tells_nothing_are_passed_over(folder: Path) -> None:
    reader, writer = opened(folder), opened(folder)
    writer.replace_server("org:1", "mail", MAIL)
    earlier = reader.load("org:1")
    writer.replace_server("org:1", "files", FILES)
    told = (folder / NEWS).read_text()
    writer.replace_server("org:1", "mail", MAIL[:1])
    (folder / NEWS).write_text(told)
    assert_same(reader.renewed("org:1", earlier), opened(folder).load("org:1"))


def test_a_writer_that_dies_before_it_tells_is_not_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    early, late, writer = opened(folder), opened(folder), opened(folder)
    writer.replace_server("org:1", "mail", MAIL)
    earlier = early.load("org:1")
    assert late.load("org:1").version == earlier.version
    with monkeypatch.context() as dying:
        dying.setattr("orchestrator.store.news.News.add", _die)
        with pytest.raises(KeyboardInterrupt):
            writer.replace_server("org:1", "mail", MAIL[:1])
    assert_same(early.renewed("org:1", earlier), opened(folder).load("org:1"))
    writer.replace_server("org:1", "files", FILES)
    assert_same(late.renewed("org:1", earlier), opened(folder).load("org:1"))


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_folder_whose_news_cannot_be_written_is_written_and_read_all_the_same(folder: Path) -> None:
    reader, writer = opened(folder), opened(folder)
    writer.replace_server("org:1", "mail", MAIL)
    earlier = reader.load("org:1")
    (folder / NEWS).with_suffix(".new").mkdir()
    writer.replace_server("org:1", "mail", MAIL[:1])
    assert reader.renewed("org:1", earlier).tools == MAIL[:1]


def test_another_embedders_news_are_not_taken_for_ones_own(folder: Path, tmp_path: Path) -> None:
    reader, writer = opened(folder), opened(folder)
    writer.replace_server("org:1", "mail", MAIL)
    earlier = reader.load("org:1")
    other = Store(folder, embedder=StaticEmbedder(smaller_model(tmp_path / "model")), timeout_s=5)
    other.replace_server("org:1", "files", FILES)
    renewed = reader.renewed("org:1", earlier)
    assert "embeds the tools anew" in renewed.note
    assert_same(renewed, opened(folder).load("org:1"))


def test_the_file_stays_small_where_a_large_server_changes_little_and_often(tmp_path: Path) -> None:
    large = {f"tool_{number}": "hash" for number in range(MOST_NAMED // 2)}
    for number in range(4):
        write = Write(
            tenant="org:1", before="", after="", collection="c", servers={"s": large | {"new": "hash"}}, points={}
        )
        News(tmp_path).add(str(number), str(number + 1), [write])
    assert News(tmp_path).since("2") is None
    assert News(tmp_path).since("3") == ("4", [write])
