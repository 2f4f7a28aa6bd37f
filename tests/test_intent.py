"""Intent: which tools are known to only read, and which words begin an action."""

from dataclasses import replace

import pytest

from orchestrator import Annotations
from orchestrator.index.intent import reads_only
from tests.catalogues import tool


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("get_user", True),
        ("listIssues", True),
        ("notes-search-notes", True),  # The server's own name stands in front.
        ("get_or_create_user", False),
        ("forget_user", False),
        ("create_issue", False),
        ("run_query", False),
        ("", False),
    ],
)
def test_a_name_that_begins_with_a_reading_verb_reads_unless_hint_or_label_say_otherwise(
    name: str, reads: bool
) -> None:
    own = tool(f"notes:{name}")
    assert reads_only(own) is reads
    assert reads_only(replace(own, annotations=Annotations(read_only=True)))
    assert reads_only(replace(own, labels={"read_only": "yes"}))
    for stricter in (
        {"annotations": Annotations(read_only=False)},
        {"annotations": Annotations(read_only=True, destructive=True)},
        {"labels": {"read_only": "false"}, "annotations": Annotations(read_only=True)},
    ):
        assert not reads_only(replace(own, **stricter))


@pytest.mark.parametrize(
    ("name", "description", "reads"),
    [
        ("get_user", "Gets the user.", True),
        ("get_user", "Returns a user", True),
        ("list_items", "**Lists** all items", True),
        ("fetch_page", "Retrieve and read a page", True),
        ("get_rid_of_user", "Delete a user for good.", False),
        ("get_user", "Permanently deletes the user.", False),
        ("retrieve_funds", "Withdraw funds from the account.", False),
        ("fetch_payment", "Charge the card on file.", False),
        ("get_new_api_key", "Rotate the API key", False),
        ("list_item_on_marketplace", "Sell an item", False),
        ("read_all", "Marks all messages as read.", False),
        ("show_shutdown", "Shut down the host.", False),
        ("fetch_message", "Fetch and delete a message", False),
        ("get_user", "Löscht den Nutzer.", False),
        ("get_user", "🗑️", False),
    ],
)
def test_a_description_that_begins_with_anything_but_reading_makes_a_tool_wait(
    name: str, description: str, reads: bool
) -> None:
    assert reads_only(tool(f"notes:{name}", description)) is reads
