"""docker-compose.yml and Dockerfile, read: there is no Docker where these tests run."""

import re
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


def test_everything_that_a_deployment_needs_is_there() -> None:
    assert set(SERVICES) == {"database", "temporal", "temporal-ui", "qdrant", "worker"}


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


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_published_on_loopback_alone(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


def test_the_workers_command_and_variables_are_ones_that_it_reads() -> None:
    worker = SERVICES["worker"]
    shown = CliRunner().invoke(cli, [worker["command"][0], "--help"]).output
    used = worker["command"][1:] + worker["healthcheck"]["test"][3:]
    assert all(option in shown for option in used if option.startswith("--"))
    assert set(worker["environment"]) <= {*_VARIABLES.values(), "OPENAI_API_KEY"}
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
