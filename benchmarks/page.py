"""The pages of docs/ with tables that commands write between two marks."""

from pathlib import Path

MARKS = ("<!-- tables: begin -->", "<!-- tables: end -->")


def write(page: Path, tables: str) -> None:
    """Puts the tables between the page's marks."""
    before, rest = page.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    page.write_text(f"{before}{MARKS[0]}\n{tables}\n{MARKS[1]}{after}", encoding="utf-8")
