"""The group `toolroute experience`."""

import click

from orchestrator.cli.shared.lazy_group import LazyGroup


@click.group(
    cls=LazyGroup,
    package="orchestrator.cli.experience",
    places={
        "import": ("import_log:import_log", "Remember the finished tasks in LOGS."),
        "list": (
            "list_tasks:list_tasks",
            "List the newest remembered tasks and the tools that they used.",
        ),
        "stats": ("stats:stats", "Show how often routing was right."),
        "replay": (
            "replay:replay",
            "Route past tasks again and show how a change affects them.",
        ),
        "export": ("export:export", "Write all tasks as JSON lines, for `import`."),
        "forget": ("forget:forget", "Forget the tasks that match all given options."),
    },
)
def experience() -> None:
    """Import, list, measure, replay and forget finished tasks."""
