"""Requests and tasks of our own, `research/written`: each is labelled with tools that are there."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from orchestrator import Catalogue
from research import sources
from research.examples import sampled
from research.sources import WRITTEN
from research.tasks import tasks


def test_every_request_is_asked_once_of_tools_that_its_catalogue_has(bench: Path) -> None:
    asked = [*sources.requests(bench.parent), *sources.abroad(bench.parent)]
    assert not [text for text, tools in asked if not tools]
    assert not [text for text, times in Counter(text.lower() for text, _ in asked).items() if times > 1]


def test_every_part_of_a_story_names_tools_that_are_there_and_no_story_is_told_twice(bench: Path) -> None:
    told = [row["parts"] for row in sources.rows(WRITTEN / "stories.jsonl")]
    wanted = [[len(part["relevant"]) for part in parts] for parts in told]
    assert [[len(tools) for _, tools in story] for story in sources.stories(bench.parent)] == wanted
    assert all(sum(counts) > 1 for counts in wanted)
    whole = [" ".join(part["text"] for part in parts).lower() for parts in told]
    assert len(set(whole)) == len(whole) > 0


def test_every_task_is_labelled_with_tools_of_its_servers(bench: Path) -> None:
    files = tasks(bench.parent)
    assert len(files) == len(list((WRITTEN / "tasks").iterdir())) > 0
    for own in files:
        wanted = {key for record in own.records for key in record["relevant"]}
        assert not wanted - own.catalogue.positions.keys(), own.name


def test_labels_of_tools_without_a_server_are_their_keys(bench: Path) -> None:
    known = Catalogue.read(bench / "api_bank").positions
    assert all(key in known for record in sampled(bench / "api_bank") for key in record["relevant"])


def test_nothing_is_written_of_a_server_that_has_tasks() -> None:
    """The maps are fitted on the tasks: an embedder that knew their tools would look surer than it is elsewhere."""
    own = _servers(key for path in sorted((WRITTEN / "tasks").glob("*.jsonl")) for key in _labels(path))
    for folder in ("requests", "languages"):
        files = sorted((WRITTEN / folder).glob("*.jsonl"))
        assert files
        assert not own & _servers(key for path in files for key in _labels(path))
    parts = (part for row in sources.rows(WRITTEN / "stories.jsonl") for part in row["parts"])
    assert not own & _servers(key.partition("/")[2] for part in parts for key in part["relevant"])


def _labels(path: Path) -> Iterator[str]:
    return (key for row in sources.rows(path) for key in row["relevant"])


def _servers(keys: Iterable[str]) -> set[str]:
    return {key.partition(":")[0] for key in keys}


def test_what_needs_no_tool_is_no_request_and_is_not_taught_where_it_is_to_be_unseen(bench: Path) -> None:
    taught, unseen = ({text.lower() for text in sources.idle(part)} for part in ("taught", "unseen"))
    assert len(taught) == len(sources.idle()) > 500
    assert len(unseen) > 200
    asked = {text.lower() for text, _ in (*sources.requests(bench.parent), *sources.abroad(bench.parent))}
    assert not taught & unseen
    assert not asked & (taught | unseen)
