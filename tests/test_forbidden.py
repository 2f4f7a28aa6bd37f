"""Tools that do what a task forbids: they are no matches, and the Decision says why."""

import pytest

from orchestrator.catalogue import Catalogue
from orchestrator.router import Router
from tests.catalogues import sample, tool


@pytest.mark.parametrize(
    ("task", "first", "forbidden"),
    [
        ("Without creating an issue, search jira for login bugs", "jira:search_issues", "jira:create_issue"),
        ("search jira for login bugs without creating a new issue", "jira:search_issues", "jira:create_issue"),
        ("Without creating a jira issue, open an issue on github", "github:create_issue", "jira:create_issue"),
        ("don't search the web, search my documents", "builtin:workspace_rag_query", "builtin:web_search"),
        ("make sure not to send any email, draft an email to Ana", "gmail:create_draft", "gmail:send_email"),
    ],
)
async def test_a_tool_that_does_what_is_forbidden_is_left_out_with_the_words(
    task: str, first: str, forbidden: str
) -> None:
    async with Router(sample()) as router:
        decision = await router.route(task)
    assert decision.matches[0].tool.key == first
    assert forbidden not in [match.tool.key for match in decision.matches]
    assert {item.tool: item.why for item in decision.rejected}[forbidden].startswith("the query leaves out")


@pytest.mark.parametrize(
    "task",
    [
        "don't delete all projects, remove the old ones",
        "don't delete archived projects, remove the old ones",
        "don't delete projects in Oslo, remove those in Bergen",
        "don't delete projects, delete folders",
        "delete the projects, no emails",
        "don't delete the github projects, remove the others",
    ],
)
async def test_a_tool_stays_where_less_or_other_than_it_does_is_forbidden(task: str) -> None:
    tools = [tool("jira:delete_projects", "remove projects"), tool("mail:emails", "send emails to people")]
    async with Router(Catalogue(tools)) as router:
        decision = await router.route(task)
    assert decision.matches[0].tool.key == "jira:delete_projects"
