"""The commands of the tutorials and of pages about servers print the output that the pages show."""

import json
from pathlib import Path

import pytest

from tests.pages import ROOT, fresh_home, lines, printed, prints_what_it_shows, python_of, with_cursor


def test_the_prepass_prints_what_its_page_shows(tmp_path: Path) -> None:
    [code] = python_of("docs/tutorials/python-agent.md")
    text = (ROOT / "docs/tutorials/python-agent.md").read_text(encoding="utf-8")
    shown = text.split("$ python prepass.py\n")[1].split("```")[0]
    assert printed(code, tmp_path) == shown  # With its figures: they depend on no machine.
    prints_what_it_shows("docs/tutorials/python-agent.md", fresh_home(tmp_path))


@pytest.mark.slow
def test_servers_are_listed_called_and_served_as_the_page_shows(tmp_path: Path) -> None:
    environment = fresh_home(tmp_path)
    prints_what_it_shows("docs/tutorials/ai-client.md", environment)
    [code] = python_of("docs/tutorials/ai-client.md")
    assert lines(printed(code, tmp_path, environment)) == ["files:count_words 0"]
    searched = code.replace('print(tool, counted.structured_content["words"])', "print(found.content[0].text)")
    answer = json.loads(printed(searched, tmp_path, environment))
    page = (ROOT / "docs/how-to/serve.md").read_text(encoding="utf-8")
    shown = json.loads(page.split("```json\n")[1].split("```")[0])
    assert answer.keys() == shown.keys()
    for match, example in zip(answer["matches"], shown["matches"], strict=False):
        assert match["tool"] == example["tool"]
        assert example.keys() <= match.keys()


@pytest.mark.slow
def test_a_task_runs_on_temporal_as_the_page_shows(tmp_path: Path, temporal_address: str) -> None:
    environment = fresh_home(tmp_path) | {"TEMPORAL_ADDRESS": temporal_address}
    prints_what_it_shows("docs/tutorials/temporal-workflow.md", environment)
    [code] = python_of("docs/tutorials/temporal-workflow.md")
    ran = printed(code.replace("localhost:7233", temporal_address), tmp_path, environment)
    assert ran.startswith('s1 done\n{\n  "lines": ')


@pytest.mark.parametrize("page", ["docs/tutorials/ai-client.md", "docs/how-to/mcp.md"])
def test_a_page_shows_the_counts_of_the_example_file(page: str) -> None:
    text = (ROOT / "examples/tasks.json").read_text(encoding="utf-8")
    counts = {"lines": len(text.splitlines()), "words": len(text.split()), "characters": len(text)}
    shown = (ROOT / page).read_text(encoding="utf-8").split("$ toolroute call files:count_words")[1]
    assert json.loads(shown.split("\n", 1)[1].split("```")[0]) == counts


@pytest.mark.slow
def test_servers_are_connected_as_the_page_shows(tmp_path: Path) -> None:
    prints_what_it_shows("docs/how-to/mcp.md", fresh_home(tmp_path))


@pytest.mark.slow
def test_setup_shows_the_plan_of_the_page(tmp_path: Path) -> None:
    prints_what_it_shows("docs/how-to/clients.md", with_cursor(tmp_path), only="toolroute setup\n")
