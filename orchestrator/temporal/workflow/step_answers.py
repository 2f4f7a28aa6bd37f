"""People's answers about the calls of steps. An answer is about one call: other arguments are another call.

This module is deterministic.
"""

from orchestrator.records.run import Approval, Checkpoint


class Answers:
    """The answers of one run, by the id of the step.

    Attributes:
        asked: The digest of the call about which a person is asked.
        allowed: Whether the call was approved. A step that waits is missing.
        decided_by: The name of the person who answered.
    """

    def __init__(self, done: Checkpoint | None) -> None:
        self.asked = dict(done.asked) if done else {}
        self.allowed = dict(done.approvals) if done else {}
        self.decided_by = dict(done.decided_by) if done else {}

    def ask(self, step: str, digest: str) -> None:
        """Ask about a call. An approval of another call, from before the run continued as new, does not count."""
        if self.allowed.get(step) and self.asked.get(step) != digest:
            self.forget(step)
        self.asked[step] = digest

    def has(self, step: str) -> bool:
        """Return True if a person has answered."""
        return step in self.allowed

    def take(self, approval: Approval) -> None:
        self.allowed[approval.step] = approval.allowed
        self.decided_by[approval.step] = approval.by

    def forget(self, step: str) -> None:
        """Ask again, because the call has changed."""
        self.allowed.pop(step, None)
        self.decided_by.pop(step, None)
