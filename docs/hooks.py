"""Pages of the site that stand outside docs/, with links that hold in both places."""

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "research/README.md": "research.md",
    "research/written/README.md": "written.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside, and the files that pages of docs/ show as examples."""
    shown = {
        link
        for page in ROOT.glob("docs/**/*.md")
        for link in re.findall(r"\]\((?:\.\./)+(examples/[^)]+)\)", page.read_text("utf-8"))
    }
    for example in sorted(shown):
        files.append(File.generated(config, example, abs_src_path=str(ROOT / example)))
    for source, page in OUTSIDE.items():
        files.append(
            File.generated(
                config, page, content=_linked(source, (ROOT / source).read_text("utf-8"))
            )
        )
    return files


def on_page_markdown(markdown: str, page: object, **_: object) -> str:
    """Lead links of docs/ that leave it to where the site has their pages."""
    source = page.file.src_uri
    return markdown if source in OUTSIDE.values() else _linked(f"docs/{source}", markdown)


def _linked(source: str, text: str) -> str:
    folder = dirname(source)
    page = dirname(OUTSIDE.get(source) or source.removeprefix("docs/"))

    def lead(link: re.Match[str]) -> str:
        target = normpath(join(folder, link[1]))
        return f"]({relpath(OUTSIDE.get(target) or target.removeprefix('docs/'), page or '.')}"

    return re.sub(r"\]\((?![a-z]+:)([^)#\s]+)", lead, text)
