"""The site that `make docs` builds: every link leads somewhere, and a page loads nothing from other hosts."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.pages import ROOT
from tests.shared_data import skip_or_fail

MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"


@pytest.mark.slow
def test_a_page_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    if not MKDOCS.exists():
        skip_or_fail("the site's builder is not installed: make docs")
    command = [MKDOCS, "build", "--strict", "--quiet", "--site-dir", tmp_path]
    subprocess.run(command, cwd=ROOT, timeout=150, check=True)
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loads = re.findall(r"<(?:script|img|iframe|source)\b[^>]*?\bsrc=\"?([^\s\">]+)", page.read_text("utf-8"))
        loads += re.findall(r"<link\b[^>]*?\bhref=\"?([^\s\">]+)", page.read_text("utf-8"))
        assert [load for load in loads if "//" in load] == [], page
    styles = "".join(style.read_text("utf-8") for style in tmp_path.rglob("*.css"))
    assert not re.search(r"url\([\"']?(?:https?:)?//|@import", styles)
