"""Variants: a task may say "repo", "PR" or "colour" where a tool says it otherwise."""

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.text import terms
from orchestrator.index.variants import spelt_out
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.routing.router import Router
from orchestrator.routing.understand import understand
from tests.catalogues import tool

TOOLS = [
    tool("forge:merge_pull_request", "Merge a pull request into its base branch."),
    tool("forge:list_repositories", "List the repositories of an owner."),
    tool("forge:close_milestone", "Close a milestone."),
    tool("studio:set_color", "Change the color of a shape."),
    tool("studio:resize_img", "Resize an img to a width."),
    tool("studio:read_text", "Recognition of text in a scan."),
    tool("studio:group_layers", "Group layers."),
    tool("desk:cancel_meeting", "Cancel a meeting."),
    tool("desk:list_tasks", "List what is to be done."),
]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("merge this PR", "merge_pull_request"),
        ("merge both PRs", "merge_pull_request"),
        ("show my repos", "list_repositories"),
        ("make the image smaller", "resize_img"),
        ("another colour for the box", "set_color"),
        ("OCR this page", "read_text"),
        ("no mtg today, cancel it", "cancel_meeting"),
    ],
)
async def test_a_word_finds_the_tool_that_says_what_it_stands_for(query: str, name: str) -> None:
    async with Router(Catalogue(TOOLS)) as router:
        request = RouteRequest(query=query, tenant="local", route_hint=RouteHint.KEYWORD)
        decision = await router.route(request)
    assert decision.matches[0].tool.name == name


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("repo", "repository"),
        ("repos", "repositories"),
        ("K8S", "kubernetes"),
        ("docs", "documentation"),
        ("organised", "organise"),
        ("organise", "organize"),
        ("analyses", "analyze"),
        ("payments", "pay"),
    ],
)
def test_words_for_one_thing_are_one_term(short: str, long: str) -> None:
    assert terms(short) == terms(long)


@pytest.mark.parametrize("word", ["app", "os", "dir", "temp", "bus", "pros", "news", "us", "its"])
def test_what_may_mean_something_else_stays_as_it_is(word: str) -> None:
    assert terms(word) in ([], [word])
    assert spelt_out(word) == word


def test_an_acronym_keeps_its_own_term_beside_those_of_its_words() -> None:
    assert terms("a PR") == ["pr", "pull", "request"]


def test_an_acronym_is_spelt_out_for_the_embedder_and_nothing_else_is_touched() -> None:
    task = "merge the PRs of acme/sms and mail ui@acme.io"
    assert understand(task).texts[0] == "merge the PRs pull request of acme/sms and mail ui@acme.io"
    assert spelt_out("sprint, umpire, CMS and asms") == "sprint, umpire, CMS and asms"


def test_a_task_is_shown_in_its_own_words() -> None:
    assert understand("show my repos").words[terms("repository")[0]] == "repos"
