"""The commands' output on standard error while they work."""

import io
import sys

import pytest

from orchestrator.cli.shared.output import note, progress
from orchestrator.common.lines import as_json


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written_to(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("listing servers") as done:
        done(1, 2, "installing git")
        note("quick: 8 tools stored")
    return stream.getvalue()


def test_a_note_stands_above_the_bar_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    written = written_to(Terminal(), monkeypatch)
    assert "\x1b[2Kquick: 8 tools stored\n" in written
    assert "1/2" in written
    assert "installing git" in written


def test_a_file_gets_notes_and_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert written_to(io.StringIO(), monkeypatch) == "quick: 8 tools stored\n"


def test_json_has_null_for_a_number_that_is_none() -> None:
    assert as_json({"value": float("inf"), "list": [float("nan"), 1.5]}) == '{"value": null, "list": [null, 1.5]}'
