"""A tool that says it is deprecated comes behind what took its place, and the reason says so."""

import pytest

from orchestrator import Catalogue, Router
from orchestrator.language.outdated import is_outdated
from tests.catalogues import tool

DOCS = Catalogue(
    [
        tool("go:lookup_go_doc", "[DEPRECATED] Use describe_go_package instead. Describe a Go package."),
        tool("go:describe_go_package", "Describe a Go package."),
        tool("chat:get_messages", "Deprecated. Get the messages of a chat."),
        tool("api:list_apis", "List the deprecated APIs of a service."),
    ]
)


@pytest.mark.parametrize(
    ("task", "first", "outdated"),
    [
        ("look up the go doc of package fmt", "go:describe_go_package", False),
        ("get the messages of the chat", "chat:get_messages", True),
        ("which APIs of the service are deprecated", "api:list_apis", False),
    ],
)
async def test_what_took_its_place_goes_first(task: str, first: str, outdated: bool) -> None:
    async with Router(DOCS) as router:
        match = (await router.route(task)).matches[0]
    assert (match.tool.key, "says that it is deprecated" in match.why) == (first, outdated)


@pytest.mark.parametrize(
    ("description", "outdated"),
    [
        ("DEPRECATED: use get_page", True),
        ("⚠️ DEPRECATED - the field does it", True),
        ("Deprecated, please use get_page instead", True),
        ("Get a page. (Deprecated, use get_page)", True),
        ("Create an order. **DEPRECATED** To buy, use the shop.", True),
        ("Delete a group. .. deprecated:: kept for old clients", True),
        ("Deprecated by the vendor: request a payout", True),
        ("This tool is deprecated.", True),
        ("This operation is deprecated.", True),
        ("Get messages. Note: deprecated since v2", True),
        ("List AMIs by status: AVAILABLE, PENDING, DEPRECATED", False),
        ("If a package is deprecated, use this to find another", False),
        ("List models (deprecated ones included) of a project", False),
        ("Marks a version [deprecated] in npm", False),
        ("Deprecated packages of a project", False),
        ("Lists deprecated APIs", False),
        ("Check whether the code uses deprecated features.", False),
        ("Ping tests are deprecated and not supported. Creates a test.", False),
        ("", False),
    ],
)
def test_a_tool_says_so_of_itself_or_not(description: str, outdated: bool) -> None:
    assert is_outdated(description) == outdated
