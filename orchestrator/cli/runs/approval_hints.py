"""The command that approves the calls for which a run still waits, after the run."""

import shlex
import sys
from collections.abc import Sequence

from orchestrator.cli.shared.output import note
from orchestrator.cli.trust.consent import is_at_terminal
from orchestrator.common.lines import shown_json
from orchestrator.records.call import Approve
from orchestrator.records.plan import Step
from orchestrator.records.run import RunRequest, RunResult, StepOutcome, StepStatus
from orchestrator.trust.approval_rules import call_digest, needs_approval


def note_how_to_approve(result: RunResult, request: RunRequest) -> None:
    """Name the calls that wait for approval, now or once others are done, and the command that approves these alone."""
    outcomes = {outcome.step: outcome for outcome in result.steps}
    if not any(outcome.digest for outcome in outcomes.values()):
        return
    options: list[str] = []
    for step in result.plan.steps:
        digest = _note_step_to_approve(step, outcomes[step.id], result, request)
        if digest:
            options.append(f"--yes={step.id}={digest}")
    if is_at_terminal():
        note(f"to approve exactly these calls: {_command_line_with(options)}")
    else:
        command = _command_line_with([])
        note(f"to approve these calls, a person runs this command in a terminal: {command}")


def _note_step_to_approve(
    step: Step, outcome: StepOutcome, result: RunResult, request: RunRequest
) -> str:
    """Name a call that needs approval, and return its digest, "" if none can be given yet."""
    decisions = (result.decision, *result.extra_routes)
    tool = next((tool for decision in decisions if (tool := decision.tool(step.tool))), None)
    if tool is None or step.missing:
        return ""
    # The server may list another definition than the one that was routed, and then its call waits, too.
    if not outcome.digest and not needs_approval(tool, Approve(request.approve)):
        return ""
    arguments = outcome.arguments or step.arguments
    call = f"{step.tool} with {shown_json(arguments)}"
    if step.late and outcome.status is StepStatus.SKIPPED:
        note(f"{step.id} will need approval after a model has completed its arguments: {call}")
        return ""
    if outcome.digest:
        note(f"{step.id} waits for approval: {call}")
    else:
        note(f"{step.id} ({outcome.status.in_words}) needs approval, too: {call}")
    return outcome.digest or request.approved.get(step.id) or call_digest(tool, arguments)


def _command_line_with(approvals: Sequence[str]) -> str:
    """Return the user's command line, for a shell, with these options in place of its own `--yes`."""
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    remaining: list[str] = []
    options = iter(words[:end])
    for word in options:
        if word == "--yes":
            next(options, "")
        elif not word.startswith("--yes="):
            remaining.append(word)
    return shlex.join(["toolroute", *remaining, *approvals, *words[end:]])
