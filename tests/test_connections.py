"""The pool with servers that work: connected when called, once, in parallel, closed when idle."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Connections
from orchestrator.errors import InvalidArguments, InvalidConfig, OutcomeUnknown, ServerUnavailable, UnknownTool
from orchestrator.mcp import pool
from orchestrator.mcp.config.launch import passed
from tests.servers.start import alive, config, entry, owners
from tests.waiting import until

PLAIN = entry("quick.py")
LIBRARY = entry("plain.py")


def states(servers: Connections) -> dict[str, str]:
    return {state.server: state.state for state in servers.states()}


async def test_a_hundred_first_calls_make_one_connection_and_the_other_server_stays_as_it_is() -> None:
    async with Connections(config(plain=PLAIN, other=PLAIN)) as servers:
        assert states(servers) == {"plain": "configured", "other": "configured"}
        results = await asyncio.gather(*(servers.call("plain:pid") for _ in range(100)))
        assert len({result.text for result in results}) == 1
        assert alive(results[0].text)
        assert states(servers) == {"plain": "ready", "other": "configured"}
    assert not alive(results[0].text)
    assert owners() == []


async def test_an_idle_server_is_closed_and_stays_known() -> None:
    async with Connections(config(plain=entry("quick.py", own={"idle_ttl_s": 0.3}))) as servers:
        pid = (await servers.call("plain:pid")).text
        await until(lambda: states(servers)["plain"] == "known")
        await until(lambda: not alive(pid))
        assert servers.states()[0].tools == 8
        assert (await servers.call("plain:pid")).text != pid


async def test_a_cancelled_caller_leaves_the_connection_to_the_others() -> None:
    async with Connections(config(plain=PLAIN)) as servers:
        first = asyncio.create_task(servers.call("plain:pid"))
        while states(servers)["plain"] != "connecting":  # Looked at in every turn: it may last a few ms.
            assert not first.done()
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        pid = (await servers.call("plain:pid")).text
        slow = asyncio.create_task(servers.call("plain:wait", {"seconds": 30}))
        await until(lambda: servers.states()[0].calls_in_flight == 1)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert (await servers.call("plain:pid")).text == pid
    assert not alive(pid)
    assert owners() == []


async def test_nothing_is_left_when_the_whole_block_is_cancelled() -> None:
    pids: list[str] = []

    async def block() -> None:
        async with Connections(config(plain=PLAIN, late=PLAIN)) as servers:
            pids.append((await servers.call("plain:pid")).text)
            await asyncio.gather(servers.call("plain:wait", {"seconds": 30}), servers.call("late:pid"))

    task = asyncio.create_task(block())
    await until(lambda: bool(pids))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert owners() == []
    assert not alive(pids[0])


async def test_closing_ends_a_call_in_flight_as_unknown(tmp_path: Path) -> None:
    servers = Connections(config(plain=entry("quick.py", COUNT_FILE=str(tmp_path / "calls"))))
    slow = asyncio.create_task(servers.call("plain:wait", {"seconds": 30}))
    await until((tmp_path / "calls").exists)
    await servers.close()
    with pytest.raises(OutcomeUnknown, match="plain:wait was sent"):
        await slow
    with pytest.raises(ServerUnavailable, match="closed"):
        await servers.call("plain:pid")


async def test_closing_before_a_connection_has_begun_starts_no_process(tmp_path: Path) -> None:
    started = tmp_path / "started"
    servers = Connections(config(it={"command": "touch", "args": [str(started)]}))
    servers.warm(["it"])
    await servers.close()
    assert owners() == []
    assert not started.exists()


async def test_what_is_not_there_is_named() -> None:
    async with Connections(config(plain=PLAIN)) as servers:
        with pytest.raises(UnknownTool, match="no tool 'ad'; did you mean add"):
            await servers.call("plain:ad")
        with pytest.raises(UnknownTool, match=r"no server 'plan'.*its servers: plain"):
            await servers.call("plan:add")
        with pytest.raises(UnknownTool, match="use server:name"):
            await servers.call("add")
    with pytest.raises(InvalidConfig, match="max_open=0"):
        Connections(config(), max_open=0)


async def test_a_tools_own_error_is_a_result_and_a_definition_that_changed_is_named() -> None:
    async with Connections(config(plain=LIBRARY)) as servers:
        assert (await servers.call("plain:fail")).is_error
        chosen = {tool.name: tool for tool in await servers.tools("plain")}
        assert (await servers.call(chosen["add"], {"a": 1, "b": 2})).warnings == ()
        labelled = replace(chosen["add"], keywords=("sum",), labels={"stage": "stable"}, hash="")
        assert (await servers.call(labelled, {"a": 1, "b": 2})).warnings == ()
        await servers.call("plain:change")
        await servers.tools("plain", fresh=True)
        with pytest.raises(InvalidArguments, match="plain:add has changed since it was chosen"):
            await servers.call(chosen["add"], {"a": 1, "b": 2})
        still_fits = await servers.call(chosen["add"], {"first": 1, "second": 2})
        assert still_fits.text == "3"
        assert "has changed" in still_fits.warnings[0]


async def test_beyond_the_most_the_one_idle_for_longest_closes_and_no_call_in_flight_is_cut() -> None:
    async with Connections(config(a=PLAIN, b=PLAIN, c=PLAIN), max_open=2) as servers:
        await servers.call("a:pid")
        await servers.call("b:pid")
        busy = asyncio.create_task(servers.call("a:wait", {"seconds": 1}))
        await until(lambda: servers.states()[0].calls_in_flight == 1)
        await servers.call("c:pid")
        assert states(servers) == {"a": "ready", "b": "known", "c": "ready"}
        assert (await busy).text == "waited"
        for key in ("c:pid", "a:pid", "b:pid"):
            await servers.call(key)
        assert states(servers) == {"a": "ready", "b": "ready", "c": "known"}


async def test_a_call_waits_for_no_turn_and_servers_that_hang_give_theirs_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "_TURN_S", 0.2)
    hanging = {f"h{fault}": entry("faulty.py", fault) for fault in ("mute", "sleep", "listless")}
    limits: Any = {"max_connecting": 1, "connect_timeout_s": 300}
    async with Connections(config(**hanging, good=PLAIN, other=PLAIN), **limits) as servers:
        servers.warm([*hanging, "good", "other"])
        assert (await servers.call("good:add", {"a": 1, "b": 1})).text == "2"
        await until(lambda: states(servers)["other"] == "ready")
        assert [states(servers)[name] for name in hanging] == ["connecting"] * 3


OPENED = {
    "PIP_INDEX_URL": "https://someone:s3cret-pip@pip.example/simple",
    "UV_INDEX": "corp=https://someone:s3cret-uv@uv.example/simple",
    "UV_INDEX_URL": "https://s3cret-uv-token@uv.example/simple",
}


def test_passwords_of_package_indexes_reach_package_runners_alone() -> None:
    plain = {"PIP_INDEX_URL": "https://pip.example/simple", "UV_OFFLINE": "1"}
    assert passed(OPENED) == {}
    assert passed(OPENED, "uvx") == OPENED
    assert passed(plain) == plain


async def test_a_child_gets_its_entrys_environment_the_machines_own_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    private = ("SOMETHING_PRIVATE", "DOCKER_AUTH_CONFIG", "UV_PUBLISH_TOKEN", "NPM_CONFIG__AUTH", "PIP_PASSWORD")
    for name in private:
        monkeypatch.setenv(name, "s3cret-env")
    usual = ("DISPLAY", "LANG", "LC_TIME", "TZ", "XDG_RUNTIME_DIR", "NO_PROXY", "SSH_AUTH_SOCK", "DOCKER_HOST")
    for name in usual:
        monkeypatch.setenv(name, f"our-{name}")
    monkeypatch.setenv("https_proxy", "http://someone:s3cret-proxy@proxy.example:8080")
    monkeypatch.setenv("npm_config_registry", "https://npm.example/")
    for name, value in OPENED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ssl/own.pem")
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", "/etc/ssl/own.pem")
    quick = entry("quick.py", API_KEY="${MY_KEY}", MODE="fast", NODE_EXTRA_CA_CERTS="/etc/ssl/entrys.pem")
    quick |= {"env_pass": ["MORE", "NOT_SET"]}
    async with Connections(config(plain=quick), environ={"MY_KEY": "s3cret-key", "MORE": "s3cret-more"}) as servers:
        result = await servers.call("plain:environment", idempotency_key="flow:plan:step")
        given = result.structured
        assert {"API_KEY", "MODE", "PATH", "SSL_CERT_FILE"} <= given.keys()
        assert given.keys().isdisjoint([*private, *OPENED, "NOT_SET"])
        assert {name: given[name] for name in usual} == {name: f"our-{name}" for name in usual}
        assert given["https_proxy"] == "http://someone:***@proxy.example:8080"
        assert given["npm_config_registry"] == "https://npm.example/"
        assert given["MORE"] == "***"
        assert (given["MODE"], given["API_KEY"]) == ("fast", "***")
        assert (given["SSL_CERT_FILE"], given["NODE_EXTRA_CA_CERTS"]) == ("/etc/ssl/own.pem", "/etc/ssl/entrys.pem")
        assert "s3cret" not in f"{result}"
        assert (await servers.call("plain:key", idempotency_key="flow:plan:step")).text == "flow:plan:step"


@pytest.mark.parametrize(
    "chosen",
    [
        {"disabledTools": ["crash", "crash_once", "key", "large", "environment", "wait"]},
        {"includeTools": ["add", "pid", "crash"], "excludeTools": ["crash"]},
    ],
)
async def test_tools_that_the_entry_switches_off_are_neither_listed_nor_called(chosen: dict[str, Any]) -> None:
    async with Connections(config(quick=PLAIN | chosen)) as servers:
        assert sorted(tool.name for tool in await servers.tools("quick")) == ["add", "pid"]
        with pytest.raises(UnknownTool, match=r"no tool 'crash'; its tools \(2\): pid, add"):
            await servers.call("quick:crash")


async def test_an_entry_that_changes_or_goes_ends_no_call_under_way_and_its_process_goes() -> None:
    both = {"other": PLAIN, "gone": PLAIN}
    async with Connections(config(quick=entry("quick.py", A="one"), **both)) as servers:
        pid, gone, kept = [(await servers.call(f"{name}:pid")).text for name in ("quick", "gone", "other")]
        waiting = [asyncio.create_task(servers.call(f"{name}:wait", {"seconds": 1})) for name in ("quick", "gone")]
        await until(lambda: [state.calls_in_flight for state in servers.states()] == [1, 0, 1])
        servers.renew(config(quick=entry("quick.py", A="two"), other=PLAIN, new={"command": []}))
        assert "'A': 'two'" in (await servers.call("quick:environment")).text
        with pytest.raises(UnknownTool, match=r"no server 'gone'.* its servers: quick, other, new"):
            await servers.call("gone:pid")
        with pytest.raises(InvalidConfig, match="server 'new': command: "):
            await servers.call("new:pid")
        assert [(await call).text for call in waiting] == ["waited", "waited"]
        await until(lambda: not (alive(pid) or alive(gone)))
        assert (await servers.call("other:pid")).text == kept


async def test_a_call_goes_by_its_own_deadline_before_the_servers_timeout() -> None:
    async with Connections(config(plain=PLAIN), call_timeout_s=0.2) as servers:
        assert (await servers.call("plain:wait", {"seconds": 0.6}, deadline_s=300)).text == "waited"


async def test_progress_keeps_a_call_alive_up_to_a_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = config(library=entry("plain.py", own={"call_timeout_s": 3}))
    async with Connections(slow) as servers:
        assert (await servers.call("library:progress", {"seconds": 0.3, "times": 15})).text == "reported"
        with pytest.raises(OutcomeUnknown, match="no answer within 3 s of being sent or of its last progress"):
            await servers.call("library:progress", {"seconds": 60, "times": 1})
        with pytest.raises(OutcomeUnknown, match=r"no answer within [34]"):
            await servers.call("library:progress", {"seconds": 1, "times": 60}, deadline_s=4)
        monkeypatch.setattr("orchestrator.mcp.policy.PROGRESS_TIMES", 2)
        with pytest.raises(OutcomeUnknown, match="no answer within 3 s"):
            await servers.call("library:progress", {"seconds": 1, "times": 60})
