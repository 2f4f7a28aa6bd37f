"""The group `toolroute experience`."""

import click

from orchestrator.cli.shared.lazy_group import LazyGroup

_FOLDER = "orchestrator.cli.experience"


@click.group(
    cls=LazyGroup,
    places={
        "import": (f"{_FOLDER}.import_log:import_log", "Remember the finished tasks in LOGS."),
        "list": (
            f"{_FOLDER}.list_tasks:list_tasks",
            "List the newest remembered tasks and the tools that they used.",
        ),
        "stats": (f"{_FOLDER}.stats:stats", "Show how often routing was right."),
        "replay": (
            f"{_FOLDER}.replay:replay",
            "Route past tasks again and show how a change affects them.",
        ),
        "export": (f"{_FOLDER}.export:export", "Write all tasks as JSON lines, for `import`."),
        "forget": (f"{_FOLDER}.forget:forget", "Forget the tasks that match all given options."),
    },
)
def experience() -> None:
    """Import, list, measure, replay and forget finished tasks."""
