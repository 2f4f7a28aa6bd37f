"""Package runners: an install has the time that it needs, is taken back whole, and is mended where it was not."""

import asyncio
import json
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Connections
from orchestrator.cli.shared import connecting, workspace
from orchestrator.errors import ServerUnavailable
from orchestrator.mcp.transports.runners import mend_cache, runner_of
from tests.servers.start import HERE, config
from tests.user import User
from tests.waiting import until

SERVER = f"exec {sys.executable} {HERE / 'quick.py'}"
HALF = """Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from \
{folder}/node_modules/@modelcontextprotocol/server-memory/dist/index.js"""


def npx(folder: Path, *script: str, **own: float) -> dict[str, Any]:
    """Return an entry whose runner does this. It is called by a path, as a person might call it."""
    folder.mkdir(exist_ok=True)
    program = folder / "npx"
    program.write_text("\n".join(("#!/bin/sh", *script)))
    program.chmod(stat.S_IRWXU)
    env = {"npm_config_cache": str(folder.parent)}
    return {"command": str(program), "args": ["-y", "some-server"], "env": env, "toolroute": own}


@pytest.mark.parametrize(
    ("runner", "command", "args"),
    [
        ("npx", "npx", ["-y", "x"]),
        ("npx", "/opt/node/bin/npx", ["x"]),
        ("npx", r"C:\Program Files\nodejs\npx.cmd", ["x"]),
        ("npx", "cmd", ["/c", "npx", "-y", "x"]),
        ("npx", "/usr/bin/env", ["npx", "x"]),
        ("npm", "npm", ["exec", "-y", "x"]),
        ("uvx", "uvx.exe", ["mcp-server-time"]),
        ("uv", "uv", ["tool", "run", "x"]),
        ("uv", "uv", ["--directory", "/srv/x", "run", "x.py"]),
        ("pipx", "pipx", ["run", "x"]),
        ("bunx", "bunx", ["x"]),
        ("docker", "docker", ["run", "-i", "--rm", "mcp/time"]),
        ("", "docker", ["exec", "-i", "x"]),
        ("", "npm", ["start"]),
        ("", "python3.12", ["-m", "x"]),
        ("", "env", []),
    ],
)
def test_package_runners_are_known_by_their_commands(runner: str, command: str, args: list[str]) -> None:
    assert runner_of(command, args) == runner


async def test_an_install_that_works_may_take_longer_than_connecting(tmp_path: Path) -> None:
    entry = npx(tmp_path, "sleep 0.5", SERVER, connect_timeout_s=0.3)
    async with Connections(config(plain=entry)) as servers:
        assert (await servers.call("plain:add", {"a": 1, "b": 1})).text == "2"


async def test_a_runner_that_gets_nowhere_is_ended_and_its_phase_named(tmp_path: Path) -> None:
    entry = npx(tmp_path, "exec sleep 60", install_timeout_s=1)
    async with Connections(config(plain=entry)) as servers:
        with pytest.raises(ServerUnavailable, match=r"by npx within 1 s \(installing\); to wait longer, raise inst"):
            await servers.tools("plain")


async def test_a_half_installed_package_is_installed_again_by_the_one_retry(tmp_path: Path) -> None:
    half = tmp_path / "_npx" / "15b07286cbcc3329"
    (half / "node_modules").mkdir(parents=True)
    other = tmp_path / "_npx" / "0000000000000000"
    other.mkdir()
    broken = f'if [ -e {half} ]; then echo "{HALF.format(folder=half)}" >&2; exit 1; fi'
    async with Connections(config(plain=npx(tmp_path / "bin", broken, SERVER))) as servers:
        assert await servers.tools("plain")
    assert not half.exists()
    assert other.exists()


def test_a_folder_that_another_npx_fills_now_stays(tmp_path: Path) -> None:
    half = tmp_path / "_npx" / "15b07286cbcc3329"
    (half / "concurrency.lock").mkdir(parents=True)
    assert not mend_cache(HALF.format(folder=half), tmp_path)
    assert not mend_cache(f"Error: no token\n    at {half}/node_modules/x/index.js:3:1", tmp_path)
    assert half.exists()


@pytest.mark.parametrize("linked", [False, True])
def test_a_folder_that_only_the_server_names_stays(linked: bool, tmp_path: Path) -> None:
    precious = tmp_path / "precious" / "_npx" / "15b07286cbcc3329"
    precious.mkdir(parents=True)
    cache = tmp_path / "cache"
    (cache / "_npx").mkdir(parents=True)
    if linked:
        (cache / "_npx" / precious.name).symlink_to(precious)
    assert not mend_cache(HALF.format(folder=precious), cache)
    assert precious.exists()


async def test_closing_lets_a_runner_take_its_install_back(tmp_path: Path) -> None:
    begun, whole = tmp_path / "begun", tmp_path / "whole"
    entry = npx(
        tmp_path / "bin", f"trap 'sleep 2; touch {whole}; exit 1' TERM", f"touch {begun}", "while true; do true; done"
    )
    async with Connections(config(plain=entry)) as servers:
        servers.warm(["plain"])
        await until(begun.exists)
    assert whole.exists()


@pytest.mark.slow
async def test_a_killed_toolroute_lets_a_runner_take_its_install_back(user: User) -> None:
    begun, whole = user.path / "begun", user.path / "whole"
    entry = npx(
        user.path / "bin", f"trap 'sleep 1; touch {whole}; exit 1' TERM", f"touch {begun}", "while true; do true; done"
    )
    (user.path / "mcp.json").write_text(json.dumps(config(plain=entry)))
    process = await user.start("tools", "sync", "mcp.json")
    await until(begun.exists)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    await until(whole.exists)


async def test_runners_take_turns_and_keep_theirs(tmp_path: Path) -> None:
    turns = tmp_path / "turns"
    count = f"echo x >> {turns}; sleep 0.3; wc -l < {turns} >> {tmp_path / 'most'}; sed -i 1d {turns}"
    entry = npx(tmp_path / "bin", count, SERVER)
    async with Connections(config(**{f"s{number}": entry for number in range(4)}), max_installing=1) as servers:
        await asyncio.gather(*map(servers.tools, servers.config.servers))
    assert (tmp_path / "most").read_text().split() == ["1"] * 4


async def test_a_line_says_what_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connecting, "_LINE_S", 0.2)
    release = tmp_path / "release"
    entry = npx(tmp_path / "bin", f"while [ ! -e {release} ]; do sleep 0.1; done", SERVER)
    servers = {"one": entry, "two": entry}
    seen = ""
    async with (
        Connections(config(**servers), max_installing=1) as connections,
        workspace.connecting(connections, "listing servers", 2),
    ):
        listing = asyncio.gather(*map(connections.tools, servers))
        while "ing one; waiting two" not in seen:
            await asyncio.sleep(0.1)
            seen += capsys.readouterr().err
        release.touch()
        await listing
    assert "0 of 2 done; " in seen
