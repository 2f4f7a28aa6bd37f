"""Opening Qdrant in a folder and at a URL: each failure is named, and no request grows too large."""

from pathlib import Path

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import InvalidConfig, StoreUnavailable, Unauthorised
from orchestrator.store.manifest import stored_tool
from orchestrator.store.store import Store
from tests.catalogues import tool
from tests.qdrant_front import qdrant_front
from tests.stores import MAIL, shipped


def test_a_store_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidConfig, match="cannot be used as a folder"):
        Store(tmp_path / "file", embedder=shipped()).load("org:1")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "meta.json").write_text("{")
    with pytest.raises(StoreUnavailable, match="move the folder away"):
        Store(tmp_path / "broken", embedder=shipped()).load("org:1")


def test_a_point_that_is_no_tool_is_named_with_the_remedy() -> None:
    with pytest.raises(InvalidConfig, match=r"its fields: name, server\): .* another place with --store"):
        stored_tool({"server": "mail", "name": "send"})


def test_an_address_that_is_no_qdrant_servers_is_refused_without_its_password() -> None:
    with pytest.raises(InvalidConfig, match=r"store 'ftp://there': give a folder, or a Qdrant server's http"):
        Store("ftp://me:secret@there", embedder=shipped())


def test_an_unreachable_server_is_unavailable_and_its_credentials_stay_hidden() -> None:
    with pytest.raises(StoreUnavailable, match=r"//127\.0\.0\.1:9 does not answer") as failure:
        Store("http://me:secret@127.0.0.1:9", embedder=shipped(), timeout_s=1).load("org:1")
    assert "secret" not in str(failure.value)


def test_a_server_that_refuses_the_key_says_which_setting_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    with qdrant_front(key="right") as front:
        monkeypatch.setenv("QDRANT_API_KEY", "wrong-one")
        with (
            pytest.warns(UserWarning, match="insecure connection"),
            pytest.raises(Unauthorised, match="QDRANT_API_KEY") as refused,
        ):
            Store(front.url, embedder=shipped()).load("org:1")
        assert "wrong-one" not in str(refused.value)
        monkeypatch.setenv("QDRANT_API_KEY", "right")
        with pytest.warns(UserWarning, match="insecure connection"):
            assert not Store(front.url, embedder=shipped()).load("org:1").tools


def test_an_empty_key_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_API_KEY", "")
    with qdrant_front() as front:
        assert not Store(front.url, embedder=shipped()).load("org:1").tools


def test_no_request_to_a_server_grows_beyond_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.store.qdrant._FLOATS", 1_000)
    with qdrant_front() as front:
        store = Store(front.url, embedder=shipped())
        store.replace_server("org:1", "s", [tool(f"s:do_{number}", f"Does {number}") for number in range(10)])
        assert sum(path.startswith("PUT /collections/tool_capabilities") for path in front.requests) > 4
        assert len(store.load("org:1").tools) == 10


def test_reading_makes_no_folder_and_finds_what_another_process_then_writes(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "store"
    reader, writer = (Store(folder, embedder=shipped()) for _ in range(2))
    nothing = reader.load("org:1")
    assert (nothing.tools, reader.servers("org:1"), reader.tool("org:1", MAIL[0].key)) == ((), {}, None)
    assert reader.load("org:1").version == nothing.version
    assert list(tmp_path.iterdir()) == []
    writer.replace_server("org:1", "mail", MAIL)
    now = reader.renewed("org:1", nothing)
    assert now.tools == Catalogue(MAIL).tools
    assert now.version == writer.load("org:1").version != nothing.version


def test_a_closed_folder_opens_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", embedder=shipped())
    store.replace_server("org:1", "mail", MAIL)
    store.close()
    assert store.servers("org:1") == {"mail": 2}
