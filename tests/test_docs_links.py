"""The links of the pages work, and the Python of docs/explanation/design.md runs."""

import re
from pathlib import Path

import pytest

from benchmarks.page import MARKS
from tests.pages import ROOT, printed, python_of

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("research/*.md")])

SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, heading = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), target
        assert not heading or heading in _anchors(linked), target


def test_every_picture_is_shown() -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [
        picture.name for picture in [*ROOT.glob("docs/**/*.svg"), *ROOT.glob("docs/ui/*")] if picture.name not in shown
    ] == []


def test_every_page_is_in_the_contents_of_the_site() -> None:
    contents = re.findall(r"([\w/-]+\.md)$", SITE, re.MULTILINE)
    listed = re.findall(r"\]\((decisions/[\w-]+\.md)\)", (ROOT / "docs/decisions.md").read_text(encoding="utf-8"))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in ROOT.glob("docs/**/*.md")}
    assert pages - {*contents, *listed} == set()


def test_a_page_has_the_title_that_the_contents_name() -> None:
    contents = re.findall(
        r"^ +- (.+): ((?:tutorials|how-to|reference|explanation|measured)/.+\.md)$", SITE, re.MULTILINE
    )
    titles = [(label, (ROOT / "docs" / page).read_text(encoding="utf-8").split("\n", 1)[0]) for label, page in contents]
    assert len(titles) > 40
    assert [(label, title) for label, title in titles if title != f"# {label}"] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_table_that_a_command_writes_is_empty(page: Path) -> None:
    begin, end = MARKS
    for part in page.read_text(encoding="utf-8").split(begin)[1:]:
        assert part.partition(end)[0].count("\n|") > 2


def _prose(page: Path) -> str:
    """Return a page without its code and tables."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"^\|.*", "", text, flags=re.MULTILINE)


def test_the_pipeline_of_the_page_can_be_made(tmp_path: Path) -> None:
    [pipeline] = python_of("docs/explanation/design.md")
    assert printed(f"{pipeline}\nprint(router.pipeline.name)", tmp_path) == "plain\n"


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
