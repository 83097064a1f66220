"""Exports that came through the browser: a folder each, with what is to be done with it.

They are kept as files, not as rows: an export may be larger than the database. What their owner
decided stands beside them, so that whoever does the work finds it after a restart too. One process at
a time imports an upload: it holds an advisory lock of the database.
"""

import json
import re
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath
from typing import IO

from evidence.advisory_locks import try_exclusive
from evidence.errors import InvalidRequest

KEPT_SECONDS = 7 * 24 * 3600
NAME_BYTES = 150
_ID = re.compile(r"upl_[0-9a-f]{24}")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """``phase``: receiving, received, wanted, done or failed. ``wish`` are the owner's words."""

    name: str
    size: int
    phase: str = "receiving"
    wish: dict[str, str] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    message: str = ""


@dataclass(frozen=True, slots=True)
class Upload:
    """One export in its folder below ``root``."""

    upload_id: str
    root: Path

    @property
    def folder(self) -> Path:
        return self.root / self.upload_id

    @property
    def path(self) -> Path:
        """Of the export itself, under its own name."""
        return self.folder / "export" / self.state.name

    @property
    def state(self) -> State:
        return State(**json.loads((self.folder / "state.json").read_text()))

    def save(self, **changes: object) -> None:
        state = replace(self.state, **changes)  # type: ignore[arg-type] # names of its fields
        _write(self.folder, state)

    def add(self, stream: IO[bytes], *, offset: int) -> int:
        """Puts a slice where it belongs; how much there is now. Raises ``InvalidRequest`` for a
        slice that leaves a gap or that is more than was announced."""
        if self.state.phase not in ("receiving", "received"):
            raise InvalidRequest(message="The file is being imported or was.")
        size = self.path.stat().st_size
        if not 0 <= offset <= size:
            raise InvalidRequest(message="A part of the file before this one is missing.")
        with self.path.open("r+b") as file:
            file.seek(offset)
            while block := stream.read(1024 * 1024):
                file.write(block)
                if file.tell() > self.state.size:
                    raise InvalidRequest(message="The file is longer than was said.")
        return self.path.stat().st_size

    def remove(self) -> None:
        """The export only; what became of it stays to be read."""
        for path in (self.folder / "export").glob("*"):
            path.unlink()

    @contextmanager
    def claimed(self) -> Iterator[bool]:
        """Lock the upload while the block runs, and yield whether it is to be imported.

        False while another process imports it, and once one has finished it.
        """
        with try_exclusive(f"upload {self.upload_id}") as is_free:
            known = find(self.root, self.upload_id) if is_free else None
            yield known is not None and known.state.phase == "wanted"

    def touch(self) -> None:
        """Record progress, by which health knows a stalled import."""
        (self.folder / "state.json").touch()


def begin(root: Path, *, name: str, size: int) -> Upload:
    """A new upload of a file of this name; raises ``InvalidRequest`` for a name that is none."""
    upload = Upload(f"upl_{secrets.token_hex(12)}", root)
    (upload.folder / "export").mkdir(parents=True)
    _write(upload.folder, State(name=_plain(name), size=size))
    upload.path.touch()
    return upload


def find(root: Path, upload_id: str) -> Upload | None:
    """None also for one whose state a disk that was full has left behind in part."""
    upload = Upload(upload_id, root)
    try:
        return upload if _ID.fullmatch(upload_id) and upload.state.name else None
    except (OSError, ValueError, TypeError):
        return None


def wanted(root: Path) -> list[Upload]:
    """What the owner wants imported and is not done, in the order of their coming."""
    folders = sorted(root.glob("upl_*"), key=lambda folder: folder.stat().st_mtime)
    found = (find(root, folder.name) for folder in folders)
    return [upload for upload in found if upload and upload.state.phase == "wanted"]


def at_rest_since(root: Path) -> float | None:
    """Return when an import of a wanted upload last made progress, in seconds; None without any."""
    states = [upload.folder / "state.json" for upload in wanted(root)]
    return max((each.stat().st_mtime for each in states), default=None)


def remove_old(root: Path, *, now: float) -> None:
    """What nobody wanted imported, and what is done, after a week."""
    for folder in root.glob("upl_*"):
        upload = find(root, folder.name)
        if upload is not None and upload.state.phase == "wanted":
            continue
        changed = folder / "state.json" if upload is not None else folder
        if now - changed.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def forget(workspace: Path, *, run_ids: Collection[str] | None, every: bool = True) -> None:
    """Removes what was sent for these imports (None: for any), and which keys they stored. Not
    ``every``: an export that is still to be imported stays, as its import takes it away."""
    for folder in (workspace / "uploads").glob("upl_*"):
        upload = find(folder.parent, folder.name)
        if run_ids is None or (upload is not None and _is_over(upload, run_ids, every=every)):
            shutil.rmtree(folder, ignore_errors=True)
    logs = workspace.glob("*.keys") if run_ids is None else (
        workspace / f"{run_id}.keys" for run_id in run_ids
    )  # fmt: skip
    for log in logs:
        log.unlink(missing_ok=True)


def _is_over(upload: Upload, run_ids: Collection[str], *, every: bool) -> bool:
    is_theirs = not set(run_ids).isdisjoint(upload.state.runs)
    return is_theirs and (every or upload.state.phase != "wanted")


def _plain(name: str) -> str:
    """The last part of the name: nothing in it leads anywhere."""
    plain = PurePath(name.replace("\\", "/")).name.strip().lstrip(".")
    plain = "".join(char for char in plain if char.isprintable())
    while len(plain.encode()) > NAME_BYTES:
        plain = plain[1:]
    if not plain:
        raise InvalidRequest(message="The file has no name.", param="file")
    return plain


def _write(folder: Path, state: State) -> None:
    draft = folder / f"state.{secrets.token_hex(4)}"
    draft.write_text(json.dumps(asdict(state)))
    draft.replace(folder / "state.json")
