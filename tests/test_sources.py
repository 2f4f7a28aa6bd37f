"""Several stores searched as one: each answers for itself, none takes from another, and matches name their store."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from orchestrator import Options, Router, Source, Store, Tool
from orchestrator.errors import InvalidInput, StoreUnavailable
from tests.catalogues import keys, tool
from tests.command_line import Run
from tests.loopback import served
from tests.stores import FILES, MAIL, shipped

NOBODY = "http://127.0.0.1:9"


class HeldStore(Store):
    """A real store whose answers wait until `gate` is set."""

    gate = threading.Event()

    def load(self, tenant: str, version: str = "") -> Any:
        self.gate.wait(150)
        return super().load(tenant, version)


def filled(place: str | Path, tenant: str, *tools: Sequence[Tool], kind: type[Store] = Store) -> Store:
    store = kind(place, embedder=shipped(), timeout_s=60)
    for own in tools:
        store.replace_server(tenant, own[0].server, own)
    return store


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Store]:
    store = filled(tmp_path / "own", "org:1", MAIL)
    yield store
    store.close()


async def test_matches_of_every_source_say_where_they_are_from(own: Store, tmp_path: Path) -> None:
    public = filled(tmp_path / "public", "org:public", FILES, MAIL[:1])
    async with Router(stores=[own, Source(store=public, tenant="org:public", name="registry")]) as router:
        decision = await router.route("send an email, then delete a file from the disk", tenant="org:1")
        found = {match.tool.key: match.source for match in decision.matches}
        assert found["mail:send_email"] == str(own)
        assert found["files:delete_file"] == "registry"
        assert len(found) == len(decision.matches)
        assert decision.catalogue.tools == 5
        assert not decision.warnings
        assert not any(item.tool in found for item in decision.rejected)
        shown = decision.to_json()["matches"]
        assert {entry["source"] for entry in shown} == {str(own), "registry"}
    public.close()


async def test_two_stores_rank_as_one_store_with_all_their_tools_does(own: Store, tmp_path: Path) -> None:
    other, both = filled(tmp_path / "b", "org:1", FILES), filled(tmp_path / "both", "org:1", MAIL, FILES)
    async with Router(stores=[own, other]) as apart, Router(store=both) as together:
        for query in ("delete a file from the disk", "look through my messages", "tell Bob about the folder"):
            here, there = [await router.route(query, tenant="org:1") for router in (apart, together)]
            assert [(m.tool, m.probability) for m in here.matches] == [(m.tool, m.probability) for m in there.matches]
            assert (here.tokens, here.catalogue, here.servers) == (there.tokens, there.catalogue, there.servers)
    other.close()
    both.close()


async def test_of_a_key_with_two_definitions_the_first_source_counts_and_the_other_is_named(
    own: Store, tmp_path: Path
) -> None:
    team = filled(tmp_path / "team", "org:1", (tool("mail:send_email", "Send an email, faster"),))
    async with Router(stores=[own, Source(store=team, name="team")]) as router:
        decision = await router.route("send an email", tenant="org:1")
        assert decision.matches[0].tool == MAIL[0]
        assert decision.matches[0].source == str(own)
        (why,) = [item.why for item in decision.rejected if item.tool == "mail:send_email"]
        assert why.startswith("source 'team' has another definition of this key")
        assert repr(str(own)) in why
    team.close()


async def test_a_source_that_fails_is_named_and_the_rest_answers(own: Store) -> None:
    for stores in ([own, NOBODY], [NOBODY, own]):
        async with Router(stores=stores, options=Options(store_timeout_s=60)) as router:
            decision = await router.route("send an email", tenant="org:1")
            assert decision.matches[0].tool.key == "mail:send_email"
            named = f"source {NOBODY}: its tools are missing"
            assert sum(warning.startswith(named) for warning in decision.warnings) == 1
    async with Router(stores=[NOBODY, "http://127.0.0.1:8"]) as router:
        with pytest.raises(StoreUnavailable, match=NOBODY):
            await router.route("send an email", tenant="org:1")


@pytest.mark.parametrize(
    ("status", "body"), [(200, b'{"result": "of org:9"}'), (200, b"{}"), (200, b"\xff"), (200, b"[" * 9**5), (404, b"")]
)
async def test_a_source_that_is_no_qdrant_server_is_named_and_nothing_of_its_answer_is_shown(
    own: Store, status: int, body: bytes
) -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(body, status, media_type="application/json")(scope, receive, send)

    with served(answer) as url:
        async with Router(stores=[own, url]) as router:
            decision = await router.route("send an email", tenant="org:1")
    [warning] = decision.warnings
    assert warning.startswith(f"source {url}: its tools are missing: the store {url} does not answer")
    assert "org:9" not in warning
    assert decision.matches[0].tool.key == "mail:send_email"


async def test_a_source_whose_folder_is_not_there_is_named_but_the_first_which_is_made(
    own: Store, tmp_path: Path
) -> None:
    for stores, warned in (([own, tmp_path / "gone"], 1), ([tmp_path / "new", own], 0)):
        async with Router(stores=stores) as router:
            warnings = (await router.route("send an email", tenant="org:1")).warnings
        assert [warning.endswith("its tools are missing: there is no store at this place") for warning in warnings] == [
            True
        ] * warned


@pytest.mark.parametrize("secret", ["s3cret", "s3@cret", "s3/cret", "s3#cret", "s3 cret"])
async def test_credentials_in_a_sources_address_are_shown_nowhere(own: Store, secret: str) -> None:
    url = f"http://me:{secret}@127.0.0.1:9/?api_key={secret}"
    source = Source.of(f"{url}#org:public")
    async with Router(stores=[own, url, source]) as router:
        decision = await router.route("send an email", tenant="org:1")
        shown = (Options(store=url), source, source.shown, *router.stores, *decision.warnings, decision.to_json())
    assert not [text for text in map(str, shown) if "cret" in text]
    assert "; ".join(decision.warnings).count("source http://127.0.0.1:9") == 2


async def test_a_source_that_is_late_is_named_and_counts_once_it_has_answered(own: Store, tmp_path: Path) -> None:
    late = filled(tmp_path / "late", "org:1", FILES, kind=HeldStore)
    async with Router(stores=[own, Source(store=late, name="late", deadline_s=0.05)]) as router:
        decision = await router.route("delete a file", tenant="org:1")
        assert "source late: its tools are missing: no answer within 0.05 seconds" in decision.warnings
        assert {match.tool.server for match in decision.matches} == {"mail"}
        HeldStore.gate.set()
        while decision.warnings:
            await asyncio.sleep(0.01)
            decision = await router.route("delete a file", tenant="org:1")
        assert decision.matches[0].tool.key == "files:delete_file"
    late.close()


async def test_what_changes_in_any_source_counts_at_the_next_route(own: Store, tmp_path: Path) -> None:
    team = filled(tmp_path / "team", "org:1", FILES)
    async with Router(stores=[own, team]) as router:
        assert (await router.route("send an email", tenant="org:1")).catalogue.tools == 5
        team.replace_server("org:1", "files", FILES[:1])
        own.replace_server("org:1", "mail", MAIL[:1])
        assert (await router.route("send an email", tenant="org:1")).catalogue.tools == 2
    team.close()


async def test_no_tenant_sees_another_ones_tools_in_any_source(own: Store, tmp_path: Path) -> None:
    team = filled(tmp_path / "team", "org:1", FILES)
    public = filled(tmp_path / "public", "org:public", (tool("web:fetch", "Fetch a page"),))
    async with Router(stores=[own, team, Source(store=public, tenant="org:public")]) as router:
        decision = await router.route("delete a file, send an email, fetch a page", tenant="org:2")
        assert keys(decision) == ["web:fetch"]
        assert decision.catalogue.tools == 1
        assert "files:" not in str(decision)
        assert "mail:" not in str(decision)
    team.close()
    public.close()


async def test_what_is_learnt_goes_to_the_first_source(own: Store, tmp_path: Path) -> None:
    team = filled(tmp_path / "team", "org:1", FILES)
    async with Router(stores=[own, team]) as router:
        await router.record("tidy up the disk", used=["files:delete_file"], tenant="org:1")
    assert len(own.outcomes.read("org:1").outcomes) == 1
    assert not team.outcomes.read("org:1").outcomes
    team.close()


def test_a_list_of_sources_that_cannot_be_is_refused_with_the_remedy(own: Store) -> None:
    with pytest.raises(InvalidInput, match="first source has tenant='org:public'"):
        Router(stores=["a#org:public", "b"])
    with pytest.raises(InvalidInput, match="have the same name"):
        Router(stores=["a", "a"])
    with pytest.raises(InvalidInput, match="give only one of them"):
        Router(store=own, stores=["a"])
    with pytest.raises(InvalidInput, match="deadline_s=-1"):
        Source(store="a", deadline_s=-1)
    with pytest.raises(InvalidInput, match="stores has a int: give a list"):
        Router(stores=[5])  # type: ignore[list-item]


def test_the_command_line_and_the_environment_take_several_stores(
    own: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run
) -> None:
    public = f"{tmp_path / 'public'}#org:public"
    filled(tmp_path / "public", "org:public", FILES).close()
    asked = ["route", "delete a file", "--organization", "1", "-o", "json"]
    given = toolroute(*asked, "--store", str(own), "--store", public)
    monkeypatch.setenv("TOOLROUTE_STORE", f"{own}, {public}")
    for ran in (given, toolroute(*asked)):
        assert ran.exit_code == 0, ran.stderr
        best = json.loads(ran.stdout)["matches"][0]
        assert (best["tool"], best["source"]) == ("files:delete_file", public)
    listed = toolroute("tools", "list", "--organization", "1")
    assert "files:delete_file" in listed.stdout
    assert "mail:send_email" in listed.stdout
    drawn = toolroute("tools", "graph", "--store", own, "--store", NOBODY)
    assert f"source {NOBODY}: its tools are missing" in drawn.stderr
    assert "takes one store" in toolroute("tools", "sync", "--store", "a", "--store", "b").stderr


@pytest.mark.parametrize("command", [["tools", "list"], ["tools", "import", "new.jsonl"], ["experience", "list"]])
def test_the_first_store_is_not_another_tenants(
    command: list[str], own: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("new.jsonl").write_text('{"server": "a", "name": "b"}')
    refused = toolroute(*command, "--store", f"{own}#org:1")
    assert refused.exit_code == 2
    assert "give it without #org:1, and --tenant org:1" in refused.stderr
    assert not Path(f"{own}#org:1").exists()
