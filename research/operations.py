"""Operations of an OpenAPI description: is a title found as well as a description?

npm pack @octokit/openapi && tar xzf octokit-openapi-*.tgz
python -m research.operations package/generated/api.github.com.json

The tasks were written before any result was seen.
"""

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from orchestrator import Catalogue, Router

TASKS = {
    "open a new issue in the repository octo/app about the crash on the login page": "issues/create",
    "merge pull request 42": "pulls/merge",
    "who has starred my repository?": "activity/list-stargazers-for-repo",
    "delete the branch feature-x": "git/delete-ref",
    "add the label bug to issue 17": "issues/add-labels",
    "re-run the failed jobs of workflow run 881": "actions/re-run-workflow-failed-jobs",
    "download the logs of workflow run 881": "actions/download-workflow-run-logs",
    "invite ana as a collaborator on the repository": "repos/add-collaborator",
    "list the open dependabot alerts of the repository": "dependabot/list-alerts-for-repo",
    "lock the conversation on issue 99": "issues/lock",
    "create a gist with this snippet": "gists/create",
    "fork the repository into our organization": "repos/create-fork",
    "request a review from ben on pull request 7": "pulls/request-reviewers",
    "publish a new release v2.0": "repos/create-release",
    "set the actions secret NPM_TOKEN of the repository": "actions/create-or-update-repo-secret",
    "show the README of the repository": "repos/get-readme",
    "compare the commits of main and dev": "repos/compare-commits-with-basehead",
    "remove a user from the organization": "orgs/remove-member",
    "search code for the function parse_date": "search/code",
    "mark all notifications as read": "activity/mark-notifications-as-read",
}
METHODS = ("get", "put", "post", "patch", "delete")


def operations(document: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Yield the operations of the document."""
    for path in document["paths"].values():
        for method in METHODS:
            if method in path:
                yield path[method]


def with_words_in(field: str, document: Mapping[str, Any]) -> Catalogue:
    """Return the operations with only their summary, as title or as description."""
    return Catalogue(
        {
            "server": "github",
            "name": operation["operationId"].replace("/", "_"),
            field: operation["summary"],
        }
        for operation in operations(document)
    )


async def first_right(catalogue: Catalogue) -> str:
    """Return how many tasks have the right operation as their first match, and which have not."""
    wrong = []
    async with Router(catalogue) as router:
        for task, operation in TASKS.items():
            decision = await router.route(task)
            name = decision.matches[0].tool.name if decision.matches else ""
            if name != operation.replace("/", "_"):
                wrong.append(f"  {task}: {name}")
    return "\n".join([f"{len(TASKS) - len(wrong)} of {len(TASKS)}", *wrong])


async def main(document: Mapping[str, Any]) -> None:
    for field in ("title", "description"):
        print(field, await first_right(with_words_in(field, document)))
    print("as imported", await first_right(Catalogue.from_openapi(document, "github")))


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
