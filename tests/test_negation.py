"""What a task forbids: those words are nobody's to read, and no tool is found by them."""

import pytest

from orchestrator.negation import without_negated
from orchestrator.router import Router
from tests.catalogues import sample


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("don't delete anything, only list the s3 objects", "only list the s3 objects"),
        ("List the issues. Do not create a new issue.", "List the issues. ."),
        ("please do not restart the pod, just show its logs", "just show its logs"),
        ("delete nothing, just list the events", "just list the events"),
        ("never delete files; archive them", "archive them"),
        ("don't use slack, send an email to Ana", "send an email to Ana"),
        ("don’t send an email but post a message", "but post a message"),
        ("open an issue and don't assign it", "open an issue and  "),
        ("import the file without creating duplicates, then email Ana", "import the file  , then email Ana"),
    ],
)
def test_a_forbidden_action_is_left_out_to_the_end_of_its_part(text: str, asked: str) -> None:
    assert without_negated(text) == asked


@pytest.mark.parametrize(
    "text",
    [
        "don't forget to email Bob",
        "why don't my emails arrive",
        "I don't know how to create a chart",
        "don't worry, just list the files",
        "never mind, show the calendar",
        "send it to Ana, not to Bob",
        "list files without a name",
        "don't delete anything",
        "nothing works, restart the server",
    ],
)
def test_other_negations_and_a_task_of_nothing_else_stay_whole(text: str) -> None:
    assert without_negated(text) == text


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("don't delete anything, only list the s3 objects", "s3:list_objects"),
        ("delete nothing, just list the events", "google_calendar:list_events"),
        ("without using the web, search my documents", "builtin:workspace_rag_query"),
    ],
)
async def test_a_tool_for_a_forbidden_action_is_neither_first_nor_recommended(query: str, first: str) -> None:
    async with Router(sample()) as router:
        decision = await router.route(query)
    assert decision.recommended == (first,)
