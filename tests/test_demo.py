"""`make demo` and the picture that a tutorial shows of it."""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.catalogues import EXAMPLES


def _words(picture: Path) -> list[str]:
    """Return the picture's texts without their figures, which may change."""
    texts = re.findall(r"<text[^>]*>(.*)</text>", picture.read_text(encoding="utf-8"))
    return [re.sub(r"\d+", "0", html.unescape(text)).strip() for text in texts]


@pytest.mark.slow
def test_the_demo_carries_out_a_task_and_is_what_the_picture_shows(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.demo"]
    ran = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "agents, integrations, workflows and built-ins" in ran.stdout
    assert '"words": ' in ran.stdout
    drawn = tmp_path / "route.svg"
    subprocess.run([sys.executable, "-m", "examples.picture", str(drawn)], cwd=EXAMPLES.parent, timeout=120, check=True)
    shown = EXAMPLES.parent / "docs" / "route.svg"
    assert _words(drawn) == _words(shown), "draw it again: python -m examples.picture"
