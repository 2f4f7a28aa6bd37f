"""An MCP server over stdio for the files of one folder. It never accesses anything outside the folder.

    python examples/servers/files_server.py --root DIR

The folder comes from ``--root`` or from the environment's ``FILES_ROOT``. Text is UTF-8. A failure that a caller can
correct (no such file, a path outside the root) is a ToolError with a plain message.
"""

import argparse
import difflib
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

MAX_BYTES = 2_000_000  # a larger file is neither read as text nor searched

FilePath = Annotated[
    str, Field(description="Path of the file, relative to the root folder, e.g. 'reports/may.txt'")
]
AnyPath = Annotated[
    str, Field(description="Path of the file or folder, relative to the root folder")
]
Folder = Annotated[
    str, Field(description="Folder to look in, relative to the root folder; '.' is the root itself")
]
Destination = Annotated[
    str, Field(description="New path, relative to the root folder; must not exist yet")
]
Depth = Annotated[int, Field(description="Levels to go down", ge=1, le=20)]
Digest = Annotated[Literal["sha256", "sha1", "md5"], Field(description="Digest to compute")]
Limit = Annotated[int, Field(description="At most this many results", ge=1, le=1000)]


class Files:
    """The tools: each public method is one, its docstring is the description that clients see."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve(strict=True)

    def read_file(
        self,
        path: FilePath,
        start_line: Annotated[
            int, Field(description="First line to return, counted from 1", ge=1)
        ] = 1,
        max_lines: Annotated[
            int, Field(description="At most this many lines", ge=1, le=10_000)
        ] = 2000,
    ) -> str:
        """Read the contents of a text file, whole or a range of its lines. Says so where lines were left out."""
        lines = self._text(path).splitlines(keepends=True)
        end = start_line - 1 + max_lines
        more = (
            f"[{len(lines) - end} more lines; continue with start_line={end + 1}]"
            if len(lines) > end
            else ""
        )
        return "".join(lines[start_line - 1 : end]) + more

    def write_file(
        self, path: FilePath, text: Annotated[str, Field(description="The whole new content")]
    ) -> str:
        """Create a text file or overwrite it with new content. Missing folders are made on the way."""
        target = self._inside(path)
        self._refuse(target.is_dir(), f"{path!r} is a folder")
        self._replace(target, text)
        return f"Wrote {len(text)} characters to {self._name(target)}"

    def append_to_file(
        self, path: FilePath, text: Annotated[str, Field(description="Text to add as it is")]
    ) -> str:
        """Add text to the end of a file and keep what is there. The file is created if it does not exist."""
        target = self._inside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("a", encoding="utf-8", newline="") as file:
            file.write(text)
        return f"Appended {len(text)} characters to {self._name(target)}"

    def replace_text(
        self,
        path: FilePath,
        old: Annotated[
            str, Field(description="Exact text to find; line breaks and case count", min_length=1)
        ],
        new: Annotated[str, Field(description="Text to put in its place; empty removes it")],
        every: Annotated[
            bool, Field(description="Replace every occurrence instead of exactly one")
        ] = False,
    ) -> str:
        """Edit a file by replacing an exact piece of text. Without `every` the piece must occur exactly once."""
        before = self._text(path)
        found = before.count(old)
        self._refuse(found == 0, f"{old!r} does not occur in {path!r}")
        self._refuse(
            found > 1 and not every,
            f"{old!r} occurs {found} times in {path!r}; give more of it, or every",
        )
        self._replace(self._inside(path), before.replace(old, new))
        return f"Replaced {found} occurrence{'s' * (found > 1)} in {path}"

    def list_folder(self, folder: Folder = ".") -> str:
        """List the files and subfolders directly inside a folder, one a line; folders end with a slash."""
        entries = sorted(self._existing(folder, "folder").iterdir())
        return "\n".join(entry.name + "/" * entry.is_dir() for entry in entries) or "(empty)"

    def show_tree(self, folder: Folder = ".", depth: Depth = 3) -> str:
        """Draw the directory structure below a folder as an indented tree, down to a given depth."""

        def branch(at: Path, level: int) -> Iterator[str]:
            for entry in sorted(at.iterdir()):
                yield "  " * level + entry.name + "/" * entry.is_dir()
                if entry.is_dir() and not entry.is_symlink() and level + 1 < depth:
                    yield from branch(entry, level + 1)

        return "\n".join(branch(self._existing(folder, "folder"), 0)) or "(empty)"

    def find_files(
        self,
        pattern: Annotated[
            str,
            Field(description="File name or wildcard pattern, e.g. '*.csv' or 'invoice_2?.pdf'"),
        ],
        folder: Folder = ".",
        limit: Limit = 200,
    ) -> str:
        """Find files by name in a folder and everything below it. Upper and lower case are alike."""
        names = (
            self._name(f)
            for f in self._walk(folder)
            if fnmatchcase(f.name.casefold(), pattern.casefold())
        )
        return _lines(names, limit) or f"No file is named {pattern!r}"

    def search_text(
        self,
        text: Annotated[str, Field(description="Words to look for, taken literally", min_length=1)],
        folder: Folder = ".",
        pattern: Annotated[
            str, Field(description="Only files whose name matches this wildcard pattern")
        ] = "*",
        limit: Limit = 100,
    ) -> str:
        """Search inside files for a piece of text (grep, any case) and return path, line number and line of hits."""

        def hits() -> Iterator[str]:
            for file in self._walk(folder):
                if fnmatchcase(file.name, pattern) and file.stat().st_size <= MAX_BYTES:
                    for number, line in enumerate(
                        file.read_text("utf-8", errors="replace").splitlines(), 1
                    ):
                        if text.casefold() in line.casefold():
                            yield f"{self._name(file)}:{number}: {line.strip()[:300]}"

        return _lines(hits(), limit) or f"{text!r} was not found"

    def move_path(self, path: AnyPath, destination: Destination) -> str:
        """Move or rename a file or folder. Refused if something is already at the destination."""
        source, target = self._from_to(path, destination)
        source.rename(target)
        return f"Moved {path} to {self._name(target)}"

    def copy_path(self, path: AnyPath, destination: Destination) -> str:
        """Copy a file, or a folder with all that is in it. Refused if something is already at the destination."""
        source, target = self._from_to(path, destination)
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
        return f"Copied {path} to {self._name(target)}"

    def delete_path(
        self,
        path: AnyPath,
        recursive: Annotated[
            bool, Field(description="Also delete a folder that has content")
        ] = False,
    ) -> str:
        """Delete a file or folder for good; there is no bin. A folder with content needs `recursive`."""
        target = self._entry(path)
        if target.is_symlink() or not target.is_dir():
            target.unlink()
        else:
            self._refuse(
                not recursive and any(target.iterdir()),
                f"{path!r} has content; set recursive to delete it",
            )
            shutil.rmtree(target)
        return f"Deleted {path}"

    def make_folder(self, path: AnyPath) -> str:
        """Create a directory, with its parents. Nothing happens if it is there already."""
        target = self._inside(path)
        target.mkdir(parents=True, exist_ok=True)
        return f"Folder {self._name(target)} is there"

    def file_info(self, path: AnyPath) -> dict[str, str | int]:
        """Tell size in bytes, type and time of last change of a file or folder."""
        target = self._existing(path)
        modified = datetime.fromtimestamp(target.stat().st_mtime, UTC).isoformat(timespec="seconds")
        kind = "folder" if target.is_dir() else "file"
        return {
            "path": self._name(target),
            "type": kind,
            "size": target.stat().st_size,
            "modified": modified,
        }

    def hash_file(self, path: FilePath, algorithm: Digest = "sha256") -> str:
        """Compute the checksum of a file, to verify a download or to tell whether two files are the same."""
        with self._existing(path, "file").open("rb") as file:
            return hashlib.file_digest(file, algorithm).hexdigest()

    def diff_files(
        self, path: FilePath, other: Annotated[str, Field(description="File to compare with")]
    ) -> str:
        """Compare two text files and show the changed lines as a unified diff."""
        old, new = (self._text(name).splitlines() for name in (path, other))
        return (
            "\n".join(difflib.unified_diff(old, new, path, other, lineterm=""))
            or "The files are the same"
        )

    def count_words(self, path: FilePath) -> dict[str, int]:
        """Count the lines, words and characters of a text file."""
        text = self._text(path)
        return {
            "lines": len(text.splitlines()),
            "words": len(text.split()),
            "characters": len(text),
        }

    @staticmethod
    def _refuse(condition: bool, why: str) -> None:
        if condition:
            raise ToolError(why)

    def _inside(self, path: str) -> Path:
        self._refuse("\0" in path, "a path has no NUL characters")
        target = (
            self.root / path
        ).resolve()  # follows links, so a link that leads outside is refused too
        self._refuse(not target.is_relative_to(self.root), f"{path!r} is outside the root folder")
        return target

    def _entry(self, path: str) -> Path:
        """Return the entry itself without following a link: moving, copying and deleting apply to the link."""
        self._refuse(
            self._inside(path) == self.root,
            "the root folder itself can't be moved, copied or deleted",
        )
        plain = Path(os.path.normpath(self.root / path))
        entry = self._inside(str(plain.parent)) / plain.name
        self._refuse(not entry.exists() and not entry.is_symlink(), f"there is no {path!r}")
        return entry

    def _existing(self, path: str, kind: Literal["file", "folder", "any"] = "any") -> Path:
        target = self._inside(path)
        self._refuse(
            not target.exists(),
            f"there is no {path!r}; list_folder or find_files shows what is there",
        )
        self._refuse(kind == "file" and not target.is_file(), f"{path!r} is not a file")
        self._refuse(kind == "folder" and not target.is_dir(), f"{path!r} is not a folder")
        return target

    def _from_to(self, path: str, destination: str) -> tuple[Path, Path]:
        source, target = self._entry(path), self._inside(destination)
        self._refuse(target.exists(), f"{destination!r} exists already")
        self._refuse(target.is_relative_to(source), f"{path!r} can't go into itself")
        target.parent.mkdir(parents=True, exist_ok=True)
        return source, target

    def _text(self, path: str) -> str:
        file = self._existing(path, "file")
        self._refuse(
            file.stat().st_size > MAX_BYTES, f"{path!r} is larger than {MAX_BYTES:,} bytes"
        )
        return file.read_bytes().decode("utf-8")

    def _replace(self, target: Path, text: str) -> None:
        """Write next to the target, then rename: a reader sees the old content or the new, never half of one."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "wb", dir=target.parent, prefix=".writing-", delete=False
        ) as file:
            file.write(text.encode("utf-8"))
        Path(file.name).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o644)
        Path(file.name).replace(target)

    def _walk(self, folder: str) -> Iterator[Path]:
        """Yield every real file below a folder once, without links, so that nothing is outside."""
        paths = sorted(self._existing(folder, "folder").rglob("*"))
        return (path for path in paths if path.is_file() and not path.is_symlink())

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def _lines(found: Iterator[str], limit: int) -> str:
    lines = list(islice(found, limit + 1))
    return "\n".join(
        [*lines[:limit], "[more; raise limit or narrow the search]"]
        if len(lines) > limit
        else lines
    )


READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
CHANGES = ADDS.model_copy(update={"destructive_hint": True})
SETS = CHANGES.model_copy(update={"idempotent_hint": True})
ENSURES = ADDS.model_copy(update={"idempotent_hint": True})


def _anticipated(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Convert errors of the file system to messages. Any other exception would be hidden from the caller."""

    @functools.wraps(tool)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return tool(*args, **kwargs)
        except OSError as error:
            raise ToolError(
                f"{error.strerror or error}: {Path(error.filename or '').name!r}"
            ) from error
        except UnicodeError as error:
            raise ToolError("this is not UTF-8 text") from error

    return call


def build_server(root: Path) -> MCPServer:
    """Return the server for one folder. It also works in process with `mcp.Client(build_server(root))`."""
    files = Files(root)
    server = MCPServer(
        "files",
        instructions="Files of one folder; all paths are relative to it.",
        log_level="WARNING",
    )
    for tools, hints in (
        (
            (
                files.read_file,
                files.list_folder,
                files.show_tree,
                files.find_files,
                files.search_text,
            ),
            READS,
        ),
        ((files.file_info, files.hash_file, files.diff_files, files.count_words), READS),
        ((files.append_to_file, files.copy_path), ADDS),
        ((files.make_folder,), ENSURES),
        ((files.replace_text, files.move_path), CHANGES),
        ((files.write_file, files.delete_path), SETS),
    ):
        for tool in tools:
            # Else each text would go out twice.
            text_only = False if tool.__annotations__["return"] is str else None
            server.add_tool(_anticipated(tool), annotations=hints, structured_output=text_only)
    return server


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the files of one folder over MCP (stdio).")
    parser.add_argument(
        "--root", default=os.environ.get("FILES_ROOT", ""), help="the folder, else $FILES_ROOT"
    )
    root: str = parser.parse_args().root
    if not root or not Path(root).is_dir():
        parser.error(f"--root {root!r} is not a folder; create it or name another")
    build_server(Path(root)).run("stdio")


if __name__ == "__main__":
    main()
