"""docker-compose.yml and Dockerfile, read: there is no Docker where these tests run."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from orchestrator.cli import cli
from orchestrator.options import _VARIABLES

ROOT = Path(__file__).parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_pinned_healthy_and_restarted(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+(\.\d+)?[\w.-]*", service["image"])
    assert service["healthcheck"]["test"]
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_refers_to_exists(name: str) -> None:
    service = SERVICES[name]
    for other, how in service.get("depends_on", {}).items():
        assert how == {"condition": "service_healthy"}
        assert other in SERVICES
    assert set(service["networks"]) <= set(COMPOSE["networks"])
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        assert source in COMPOSE["volumes"] or (ROOT / source).exists()


def test_ports_are_published_on_loopback_alone() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert {port.split(":")[0] for port in published} == {"127.0.0.1"}


def started_with(service: str) -> set[str]:
    """Return the services that `docker compose up SERVICE` starts."""
    needed = SERVICES[service].get("depends_on", {})
    return {service}.union(*(started_with(other) for other in needed))


def test_the_tutorial_starts_each_port_that_it_names() -> None:
    tutorial = (ROOT / "docs/tutorials/temporal-workflow.md").read_text()
    started = started_with(re.findall(r"docker compose up ([\w-]+)", tutorial)[0])
    published = {port.split(":")[1] for name in started for port in SERVICES[name].get("ports", [])}
    assert {"7233", "8080"} <= published


def test_the_workers_command_and_variables_are_ones_that_it_reads() -> None:
    worker = SERVICES["worker"]
    shown = CliRunner().invoke(cli, [worker["command"][0], "--help"]).output
    used = worker["command"][1:] + worker["healthcheck"]["test"][3:]
    assert worker["healthcheck"]["test"][1:3] == ["toolroute", "worker"]
    assert all(option in shown for option in used if option.startswith("--"))
    assert set(worker["environment"]) <= {*_VARIABLES.values(), "OPENAI_API_KEY", "QDRANT_API_KEY"}
    for value in (worker["environment"]["TEMPORAL_ADDRESS"], worker["environment"]["TOOLROUTE_STORE"]):
        assert value.removeprefix("http://").split(":")[0] in SERVICES
    assert worker["read_only"] is True
    assert int(worker["stop_grace_period"].removesuffix("s")) > float(worker["command"][-1])


def test_the_image_is_pinned_runs_as_nobody_in_particular_and_copies_the_whole_package() -> None:
    assert all(re.search(r":\d+\.\d+\.\d+-", line) for line in re.findall(r"^FROM .*", DOCKERFILE, re.MULTILINE))
    assert re.search(r"^USER 10001$", DOCKERFILE, re.MULTILINE)
    assert 'ENTRYPOINT ["toolroute"]' in DOCKERFILE
    copied = {word for line in re.findall(r"^COPY (.*)", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]}
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_installs_what_the_tests_ran_with_by_hash_and_from_no_named_registry() -> None:
    assert "--require-hashes" in DOCKERFILE
    assert "--no-index" in DOCKERFILE
    runtime, tested = (_pins(name) for name in ("runtime", "dev"))
    assert runtime.items() <= tested.items()
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[><=\[]", line)[0].lower() for line in declared}
    assert names <= {name.lower() for name in runtime}
    text = (ROOT / "requirements" / "runtime.lock").read_text()
    assert "://" not in text
    assert text.count("==") <= text.count("--hash=sha256:")


def _pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.lock").read_text()
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))
