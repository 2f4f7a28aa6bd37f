"""The command line, run in this process."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from orchestrator.cli import main


@dataclass
class Ran:
    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def toolroute(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs the command line in this process."""

    def run(*args: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["toolroute", *map(str, args)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run
