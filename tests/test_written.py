"""Requests and tasks of our own, `training/written`: each is labelled with tools that are there."""

import json
from collections import Counter
from pathlib import Path

from training import sources
from training.sources import WRITTEN
from training.tasks import tasks


def test_every_request_is_asked_once_of_tools_that_its_catalogue_has(bench: Path) -> None:
    asked = list(sources.requests(bench.parent))
    assert not [text for text, tools in asked if not tools]
    assert not [text for text, times in Counter(text.lower() for text, _ in asked).items() if times > 1]


def test_every_task_is_labelled_with_tools_of_its_servers(bench: Path) -> None:
    files = tasks(bench.parent)
    assert len(files) == len(list((WRITTEN / "tasks").iterdir())) > 0
    for own in files:
        wanted = {key for record in own.records for key in record["relevant"]}
        assert not wanted - own.catalogue.positions.keys(), own.name


def test_no_request_is_made_of_a_server_that_has_tasks() -> None:
    """The maps are fitted on the tasks: an embedder that knew their tools would look surer than it is elsewhere."""

    def servers(files: list[Path]) -> set[str]:
        lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
        return {key.partition(":")[0] for line in lines for key in json.loads(line)["relevant"]}

    requests, own = (sorted((WRITTEN / name).glob("*.jsonl")) for name in ("requests", "tasks"))
    assert not servers(requests) & servers(own)


def test_what_needs_no_tool_is_no_request() -> None:
    idle = sources.idle()
    assert len(idle) == len({text.lower() for text in idle}) > 500
    files = [*(WRITTEN / "requests").glob("*.jsonl"), WRITTEN / "invented" / "queries.jsonl"]
    requested = {
        json.loads(line)["query"].lower() for path in files for line in path.read_text(encoding="utf-8").splitlines()
    }
    assert not requested & {text.lower() for text in idle}
