"""An MCP server over stdio that keeps notes and to-dos in one SQLite file.

    python examples/servers/notes_server.py --file NOTES.sqlite

The file comes from ``--file`` or from the environment's ``NOTES_FILE``. It and its folder are created on first use.
Several servers may use one file at the same time: each call is one transaction, and a writer waits for the other.
"""

import argparse
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

SCHEMA = """
CREATE TABLE IF NOT EXISTS notes (
  id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, body TEXT NOT NULL, created TEXT NOT NULL,
  updated TEXT NOT NULL, pinned INTEGER NOT NULL DEFAULT 0, due TEXT, done INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS tags (
  note INTEGER NOT NULL REFERENCES notes (id) ON DELETE CASCADE, tag TEXT NOT NULL, PRIMARY KEY (note, tag));
CREATE TABLE IF NOT EXISTS links (
  note INTEGER NOT NULL REFERENCES notes (id) ON DELETE CASCADE,
  other INTEGER NOT NULL REFERENCES notes (id) ON DELETE CASCADE, PRIMARY KEY (note, other));
"""

NO_LIMIT = sys.maxsize

NoteId = Annotated[
    int, Field(description="Number of the note, as add_note and the lists give it", ge=1)
]
Title = Annotated[str, Field(description="Title of the note", min_length=1, max_length=200)]
Body = Annotated[str, Field(description="Text of the note; Markdown is welcome")]
Tag = Annotated[
    str, Field(description="Tag, e.g. 'project-x'; upper and lower case are alike", min_length=1)
]
Tags = Annotated[list[str], Field(description="Tags to file the note under")]
OnlyTag = Annotated[str | None, Field(description="Only notes that have this tag")]
Due = Annotated[
    date | None, Field(description="Due date, YYYY-MM-DD; leave it out to remove the reminder")
]
Limit = Annotated[int, Field(description="At most this many notes", ge=1, le=500)]


class Summary(BaseModel):
    """A note as the lists show it."""

    id: int
    title: str
    tags: list[str]
    pinned: bool
    due: date | None
    done: bool


class Note(Summary):
    """One note in full."""

    body: str
    links: list[int]
    created: str
    updated: str


class NoteList(BaseModel):
    """The notes asked for, and how many there would be without the limit."""

    notes: list[Summary]
    total: int


class Notes:
    """The tools: each public method is one, its docstring is the description that clients see."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        with self._transaction() as db:
            for statement in SCHEMA.split(";"):
                db.execute(statement)

    def add_note(self, title: Title, body: Body = "", tags: Tags = [], due: Due = None) -> Note:  # noqa: B006
        """Write down a new note: something to remember, an idea, minutes of a meeting. A due date makes it a to-do."""
        with self._transaction() as db:
            row = "INSERT INTO notes (title, body, created, updated, due) VALUES (?, ?, ?, ?, ?)"
            now = _now()
            note = db.execute(row, (title, body, now, now, due and due.isoformat())).lastrowid or 0
            db.executemany(
                "INSERT OR IGNORE INTO tags VALUES (?, ?)", [(note, _tag(tag)) for tag in tags]
            )
            return self._note(db, note)

    def read_note(self, note_id: NoteId) -> Note:
        """Read one note in full, with its tags, links and due date."""
        with self._transaction() as db:
            return self._note(db, note_id)

    def edit_note(
        self,
        note_id: NoteId,
        title: Annotated[
            str | None, Field(description="New title; leave it out to keep the old one")
        ] = None,
        body: Annotated[
            str | None, Field(description="New text; leave it out to keep the old one")
        ] = None,
    ) -> Note:
        """Change the title or the text of a note. What was there before is replaced."""
        if title is None and body is None:
            raise ToolError("nothing to change: give a title, a body or both")
        return self._update(
            note_id, "title = coalesce(?, title), body = coalesce(?, body)", title, body
        )

    def append_to_note(
        self,
        note_id: NoteId,
        text: Annotated[str, Field(description="Text to add as a new paragraph", min_length=1)],
    ) -> Note:
        """Add a paragraph to the end of a note and keep what is there."""
        return self._update(
            note_id, "body = CASE body WHEN '' THEN '' ELSE body || char(10, 10) END || ?", text
        )

    def delete_note(self, note_id: NoteId) -> str:
        """Delete a note for good, with its tags and the links to it. Its number is never given again."""
        with self._transaction() as db:
            title = self._note(db, note_id).title
            db.execute("DELETE FROM notes WHERE id = ?", (note_id,))
        return f"Deleted note {note_id}, {title!r}"

    def list_notes(self, tag: OnlyTag = None, limit: Limit = 50) -> NoteList:
        """List the notes, pinned ones first and then the latest changed, of one tag if you like."""
        return self._list(lambda note: tag is None or _tag(tag) in note.tags, limit)

    def search_notes(
        self,
        text: Annotated[
            str,
            Field(description="Words that must all occur in the title, text or tags", min_length=1),
        ],
        tag: OnlyTag = None,
        limit: Limit = 20,
    ) -> NoteList:
        """Search the notes for words. Upper and lower case are alike, and the beginning or a part of a word counts."""
        words = text.casefold().split()

        def matches(note: Note) -> bool:
            held = " ".join([note.title, note.body, *note.tags]).casefold()
            return (tag is None or _tag(tag) in note.tags) and all(word in held for word in words)

        return self._list(matches, limit)

    def tag_note(self, note_id: NoteId, tag: Tag) -> Note:
        """File a note under a tag (label it). Nothing changes if it has the tag already."""
        with self._transaction() as db:
            self._note(db, note_id)
            db.execute("INSERT OR IGNORE INTO tags VALUES (?, ?)", (note_id, _tag(tag)))
            return self._note(db, note_id)

    def untag_note(self, note_id: NoteId, tag: Tag) -> Note:
        """Take a tag off a note. Nothing changes if it does not have the tag."""
        with self._transaction() as db:
            self._note(db, note_id)
            db.execute("DELETE FROM tags WHERE note = ? AND tag = ?", (note_id, _tag(tag)))
            return self._note(db, note_id)

    def list_tags(self) -> dict[str, int]:
        """List all tags in use, and how many notes each one has."""
        with self._transaction() as db:
            return dict(
                db.execute(
                    "SELECT tag, count(*) FROM tags GROUP BY tag ORDER BY 2 DESC, 1"
                ).fetchall()
            )

    def pin_note(
        self,
        note_id: NoteId,
        pinned: Annotated[bool, Field(description="False takes the pin off again")] = True,
    ) -> Note:
        """Pin a note, so that it stands at the top of every list, or unpin it."""
        return self._update(note_id, "pinned = ?", pinned)

    def link_notes(
        self,
        note_id: NoteId,
        other_id: Annotated[int, Field(description="Number of the note to connect it with")],
    ) -> Note:
        """Connect two related notes. The link shows on both of them."""
        if note_id == other_id:
            raise ToolError(f"note {note_id} can't be linked with itself")
        with self._transaction() as db:
            self._note(db, other_id)
            self._note(db, note_id)
            pairs = [(note_id, other_id), (other_id, note_id)]
            db.executemany("INSERT OR IGNORE INTO links VALUES (?, ?)", pairs)
            return self._note(db, note_id)

    def set_reminder(self, note_id: NoteId, due: Due = None) -> Note:
        """Set, move or remove the due date of a note. With one it is a to-do item and shows in list_due."""
        return self._update(note_id, "due = ?, done = 0", due and due.isoformat())

    def mark_done(
        self,
        note_id: NoteId,
        done: Annotated[bool, Field(description="False opens the to-do again")] = True,
    ) -> Note:
        """Tick off a to-do as finished, or open it again."""
        return self._update(note_id, "done = ?", done)

    def list_due(
        self,
        within_days: Annotated[
            int, Field(description="How many days to look ahead; 0 is today", ge=0, le=3650)
        ] = 7,
        limit: Limit = 50,
    ) -> NoteList:
        """List open to-dos and reminders that are overdue or fall due soon, the most urgent one first."""
        last = datetime.now(UTC).astimezone().date() + timedelta(days=within_days)
        due = self._list(lambda note: not note.done and (note.due or date.max) <= last, NO_LIMIT)
        due.notes = sorted(due.notes, key=lambda note: note.due or date.max)[:limit]
        return due

    def export_markdown(self, tag: OnlyTag = None) -> str:
        """Export all notes, or those of one tag, as one Markdown document to share or print."""
        with self._transaction() as db:
            notes = [note for note in self._notes(db) if tag is None or _tag(tag) in note.tags]
        return "\n\n".join(_markdown(note) for note in notes) or "There are no such notes"

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield one connection for each call, because calls come from threads. The write lock is acquired first."""
        try:
            with closing(sqlite3.connect(self.file, timeout=10, isolation_level=None)) as db, db:
                db.row_factory = sqlite3.Row
                db.execute("PRAGMA foreign_keys = ON")
                db.execute("BEGIN IMMEDIATE")
                yield db
        except sqlite3.Error as error:
            raise ToolError(f"the notes can't be used just now: {error}") from error

    def _update(self, note_id: int, assignments: str, *values: object) -> Note:
        with self._transaction() as db:
            self._note(db, note_id)
            db.execute(
                f"UPDATE notes SET {assignments}, updated = ? WHERE id = ?",
                (*values, _now(), note_id),
            )
            return self._note(db, note_id)

    def _note(self, db: sqlite3.Connection, note_id: int) -> Note:
        for note in self._notes(db, "WHERE id = ?", note_id):
            return note
        raise ToolError(f"there is no note {note_id}; list_notes or search_notes gives the numbers")

    def _notes(self, db: sqlite3.Connection, where: str = "", *values: object) -> Iterator[Note]:
        for row in db.execute(
            f"SELECT * FROM notes {where} ORDER BY pinned DESC, updated DESC, id DESC", values
        ):
            tags = db.execute("SELECT tag FROM tags WHERE note = ? ORDER BY 1", (row["id"],))
            links = db.execute("SELECT other FROM links WHERE note = ? ORDER BY 1", (row["id"],))
            yield Note(**row, tags=[tag for (tag,) in tags], links=[other for (other,) in links])

    def _list(self, wanted: Callable[[Note], bool], limit: int) -> NoteList:
        with self._transaction() as db:
            notes = [note for note in self._notes(db) if wanted(note)]
        return NoteList(notes=[Summary(**dict(note)) for note in notes[:limit]], total=len(notes))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _tag(tag: str) -> str:
    if name := tag.strip().lstrip("#").casefold():
        return name
    raise ToolError(f"{tag!r} is no tag; give a word such as 'project-x'")


def _markdown(note: Note) -> str:
    facts = [f"#{tag}" for tag in note.tags] + ([f"due {note.due}"] if note.due else [])
    box = f"[{'x' if note.done else ' '}] " if note.due else ""
    return "\n\n".join(
        part for part in (f"## {box}{note.title}", " ".join(facts), note.body) if part
    )


READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
ENSURES = ADDS.model_copy(update={"idempotent_hint": True})
SETS = ENSURES.model_copy(update={"destructive_hint": True})


def build_server(file: Path) -> MCPServer:
    """Return the server for one file of notes. It also works in process with `mcp.Client(build_server(file))`."""
    notes = Notes(file)
    server = MCPServer(
        "notes", instructions="Notes and to-dos, each known by its number.", log_level="WARNING"
    )
    for tools, hints in (
        ((notes.read_note, notes.list_notes, notes.search_notes, notes.list_tags), READS),
        ((notes.list_due, notes.export_markdown), READS),
        ((notes.add_note, notes.append_to_note), ADDS),
        ((notes.tag_note, notes.pin_note, notes.link_notes, notes.mark_done), ENSURES),
        ((notes.edit_note, notes.untag_note, notes.set_reminder, notes.delete_note), SETS),
    ):
        for tool in tools:
            server.add_tool(tool, annotations=hints)
    return server


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Serve the notes of one SQLite file over MCP (stdio)."
    )
    parser.add_argument(
        "--file", default=os.environ.get("NOTES_FILE", ""), help="the file, else $NOTES_FILE"
    )
    file: str = parser.parse_args().file
    if not file:
        parser.error("no file for the notes; name one with --file or NOTES_FILE")
    try:
        server = build_server(Path(file))
    except (ToolError, OSError) as error:
        parser.error(f"--file {file!r}: {error}")
    server.run("stdio")


if __name__ == "__main__":
    main()
