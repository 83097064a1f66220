"""Store uploaded exports in folders on disk, and the questions about exports in a watched folder.

Each owner's uploads lie in a folder of their own. Exports are files and not rows, because an export can be larger than the database. The state on disk,
in JSON, lets a worker continue after a restart. One process at a time imports an upload: it holds an
advisory lock.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePath
from typing import IO

from django.db.models import QuerySet

from evidence.advisory_locks import try_exclusive
from evidence.errors import InvalidRequest
from evidence.models.owners import across_owners
from importers.core.readers import KeySet
from importers.models import WaitingExport

RETENTION_SECONDS = 7 * 24 * 3600
NAME_MAX_BYTES = 150
_ID = re.compile(r"upl_[0-9a-f]{24}")
_DISMISSED = "dismissed"
"""The answer to a question that the owner dismissed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadState:
    """The content of state.json.

    ``phase`` is receiving, received, wanted (queued), done or failed. ``wish`` has the form values
    that the owner chose.
    """

    name: str
    size: int
    phase: str = "receiving"
    wish: dict[str, str] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    message: str = ""


@dataclass(frozen=True, slots=True)
class Upload:
    """An uploaded export in its folder below ``root``."""

    upload_id: str
    root: Path

    @property
    def folder(self) -> Path:
        return self.root / self.upload_id

    @property
    def path(self) -> Path:
        """The path of the export itself, under its original name."""
        return self.folder / "export" / self.state.name

    @property
    def state(self) -> UploadState:
        return UploadState(**json.loads((self.folder / "state.json").read_text()))

    def save(self, **changes: object) -> None:
        state = replace(self.state, **changes)  # type: ignore[arg-type] # names of its fields
        _write(self.folder, state)

    def write_chunk(self, stream: IO[bytes], *, offset: int) -> int:
        """Write a chunk at its offset, and return the size received so far.

        Raises ``InvalidRequest`` for a chunk that leaves a gap or exceeds the announced size.
        """
        if self.state.phase not in ("receiving", "received"):
            raise InvalidRequest(message="This upload is complete. Start a new upload.")
        size = self.path.stat().st_size
        if not 0 <= offset <= size:
            raise InvalidRequest(message=f"offset is at most {size}, the size received so far.")
        with self.path.open("r+b") as file:
            file.seek(offset)
            while block := stream.read(1024 * 1024):
                file.write(block)
                if file.tell() > self.state.size:
                    raise InvalidRequest(message="The file is longer than its announced size.")
        return self.path.stat().st_size

    def remove_export(self) -> None:
        """Remove the export, and keep the state with its result."""
        for path in (self.folder / "export").glob("*"):
            path.unlink()

    @contextmanager
    def claim(self) -> Iterator[bool]:
        """Lock the upload while the block runs, and yield whether it is queued.

        False while another process imports it, and once one has finished it.
        """
        with try_exclusive(f"upload {self.upload_id}") as is_free:
            upload = find_upload(self.root, self.upload_id) if is_free else None
            yield upload is not None and upload.state.phase == "wanted"


def root_of(workspace: Path, owner_id: str) -> Path:
    """Return the folder of an owner's uploads, which exists once there is one."""
    return workspace / "uploads" / owner_id


def list_roots(workspace: Path) -> list[Path]:
    """Return the folders of uploads, which are named by the ids of their owners."""
    return [folder for folder in (workspace / "uploads").glob("*") if folder.is_dir()]


def create_upload(root: Path, *, name: str, size: int) -> Upload:
    """Create an upload of a file. Raises ``InvalidRequest`` for an empty name."""
    upload = Upload(f"upl_{secrets.token_hex(12)}", root)
    (upload.folder / "export").mkdir(parents=True)
    _write(upload.folder, UploadState(name=_safe_name(name), size=size))
    upload.path.touch()
    return upload


def find_upload(root: Path, upload_id: str) -> Upload | None:
    """Return the upload, or None if it does not exist or a full disk truncated its state."""
    upload = Upload(upload_id, root)
    try:
        return upload if _ID.fullmatch(upload_id) and upload.state.name else None
    except (OSError, ValueError, TypeError):
        return None


def list_queued(root: Path) -> list[Upload]:
    """Return the uploads that are confirmed and not imported yet, oldest first."""
    return _list_in_phase(root, "wanted")


def list_received(root: Path) -> list[Upload]:
    """Return the complete uploads that the owner has not confirmed, oldest first."""
    return _list_in_phase(root, "received")


def _list_in_phase(root: Path, phase: str) -> list[Upload]:
    folders = sorted(root.glob("upl_*"), key=lambda folder: folder.stat().st_mtime)
    uploads = (find_upload(root, folder.name) for folder in folders)
    return [upload for upload in uploads if upload and upload.state.phase == phase]


def remove_old(workspace: Path, *, now: float) -> None:
    """Remove uploads without a change for RETENTION_SECONDS, except queued ones, and empty folders."""
    for root in list_roots(workspace):
        for folder in root.glob("upl_*"):
            upload = find_upload(root, folder.name)
            changed = folder / "state.json" if upload is not None else folder
            is_queued = upload is not None and upload.state.phase == "wanted"
            if not is_queued and now - changed.stat().st_mtime > RETENTION_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # it has uploads
            root.rmdir()


def delete_uploads(
    workspace: Path,
    *,
    owner_id: str,
    run_ids: Collection[str],
    is_everything: bool,
    include_queued: bool = True,
) -> None:
    """Delete an owner's uploads and key logs of these import runs, or every upload.

    Without ``include_queued``, queued uploads stay; their import deletes them.
    """
    root = root_of(workspace, owner_id)
    if is_everything:
        shutil.rmtree(root, ignore_errors=True)
    for folder in root.glob("upl_*"):
        upload = find_upload(root, folder.name)
        if upload is None or set(run_ids).isdisjoint(upload.state.runs):
            continue
        if include_queued or upload.state.phase != "wanted":
            shutil.rmtree(folder, ignore_errors=True)
    for run_id in run_ids:
        KeySet.remove(workspace / f"{run_id}.keys")


def _safe_name(name: str) -> str:
    """Return the last part of a file name, which cannot leave the folder of the upload."""
    safe = PurePath(name.replace("\\", "/")).name.strip().lstrip(".")
    safe = "".join(char for char in safe if char.isprintable())
    while len(safe.encode()) > NAME_MAX_BYTES:
        safe = safe[1:]
    if not safe:
        raise InvalidRequest(message="The file has no name.", param="file")
    return safe


def _write(folder: Path, state: UploadState) -> None:
    draft = folder / f"state.{secrets.token_hex(4)}"
    draft.write_text(json.dumps(asdict(state)))
    draft.replace(folder / "state.json")


def list_waiting(owner_id: str) -> list[WaitingExport]:
    """Return the exports with an open question, by path."""
    rows = WaitingExport.unscoped.filter(owner_id=owner_id).exclude(question="")
    return list(rows.order_by("path"))


def find_waiting(waiting_id: str, *, owner_id: str) -> WaitingExport | None:
    rows = WaitingExport.unscoped.exclude(question="")
    return rows.filter(waiting_id=waiting_id, owner_id=owner_id).first()


def locate(waiting: WaitingExport) -> Path:
    """Return the path of a waiting export, whose name may not be UTF-8."""
    stored = Path(waiting.path)
    return _exports(stored.parent).get(waiting.path, stored)


def answer(waiting: WaitingExport, values: Mapping[str, str]) -> None:
    """Store the form values of the owner; the background worker then imports the export."""
    waiting.answer, waiting.is_due = dict(values), True
    waiting.save(update_fields=["answer", "is_due"])


def has_answered() -> bool:
    """Return whether any owner answered a question whose export is not imported yet."""
    with across_owners():
        return WaitingExport.unscoped.filter(is_due=True).exists()


def find_answered(folder: Path, *, owner_id: str) -> list[Path]:
    """Return the exports of a folder that were just answered, and forget those that are gone."""
    exports = _exports(folder)
    rows = WaitingExport.unscoped.filter(owner_id=owner_id)
    in_folder = [row for row in rows if Path(row.path).parent == Path(_stored_path(folder))]
    rows.filter(pk__in=[row.pk for row in in_folder if row.path not in exports]).delete()
    return [exports[row.path] for row in in_folder if row.is_due and row.path in exports]


def is_answered(path: Path, *, owner_id: str) -> bool:
    """Return whether the owner answered since the export was last looked at."""
    return _rows_of(path, owner_id).filter(is_due=True).exists()


def find_answer(path: Path, *, owner_id: str) -> dict[str, str]:
    """Return the form values for an export; empty if its owner answered nothing."""
    return _rows_of(path, owner_id).values_list("answer", flat=True).first() or {}


def ask(path: Path, question: str, *, flag: str, owner_id: str, now: datetime) -> bool:
    """Store a question about an export, without lines of the export, unless it was dismissed.

    Returns whether the owner is asked.
    """
    stored_path = _stored_path(path)
    if find_answer(path, owner_id=owner_id).get(_DISMISSED) == question:
        settle(path, owner_id=owner_id)
        return False
    asked = {"question": question, "flag": flag, "is_due": False}
    WaitingExport.unscoped.update_or_create(
        owner_id=owner_id,
        path=stored_path,
        defaults=asked,
        create_defaults={
            **asked, "waiting_id": "wai_" + secrets.token_hex(12), "asked_at": now,
        },
    )  # fmt: skip
    return True


def dismiss(waiting: WaitingExport) -> None:
    """Close a question. It is asked again only if the export leaves another one open."""
    waiting.answer, waiting.is_due = {**waiting.answer, _DISMISSED: waiting.question}, False
    waiting.question = ""
    waiting.save(update_fields=["answer", "is_due", "question"])


def settle(path: Path, *, owner_id: str, values: Mapping[str, str] | None = None) -> None:
    """Clear the question about an export, and keep ``values`` as the answer."""
    answer = {} if values is None else {"answer": dict(values)}
    _rows_of(path, owner_id).update(question="", is_due=False, **answer)


def _rows_of(path: Path, owner_id: str) -> QuerySet[WaitingExport]:
    return WaitingExport.unscoped.filter(owner_id=owner_id, path=_stored_path(path))


def _exports(folder: Path) -> dict[str, Path]:
    return {_stored_path(path): path for path in folder.iterdir()} if folder.is_dir() else {}


def _stored_path(path: Path) -> str:
    """Return the absolute path as text; PostgreSQL stores no bytes that are not UTF-8."""
    return os.fsencode(path.resolve()).decode(errors="backslashreplace")
