"""A file is replaced as a whole, whoever else writes it at the same time."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.common.atomic_file import LockException, lock_of, replace_file, replace_settings
from orchestrator.errors import InvalidConfig


def test_threads_can_replace_one_file(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    texts = [str(number) * 50_000 for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda text: replace_file(path, text), texts * 10))
    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    replace_file(path, "new")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    replace_file(path, "changed")
    assert path.stat().st_mode & 0o777 == 0o644
    replace_file(path, "private", private=True)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    replace_file(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "target").read_text() == "text"


def test_a_file_that_cannot_be_replaced_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "settings.json"
    path.write_text("old")
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InvalidConfig, match=r"settings\.json: cannot be written \(No space left on device\)"):
        replace_settings(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_holds_back_a_second_writer(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    with lock_of(path), pytest.raises(LockException), lock_of(path, timeout_s=0):
        pass
    with lock_of(path, timeout_s=0):
        pass
