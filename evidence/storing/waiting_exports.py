"""Keep the questions about exports in a watched folder, and what their owner answered."""

import os
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from evidence.models.imports import WaitingExport

_DISMISSED = "dismissed"
"""The answer to a question that the owner dismissed."""


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
    """Return whether an owner answered a question whose export is not imported yet."""
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
    rows = WaitingExport.unscoped.filter(owner_id=owner_id, path=_stored_path(path), is_due=True)
    return rows.exists()


def find_answer(path: Path, *, owner_id: str) -> dict[str, str]:
    """Return the form values for an export; empty if its owner answered nothing."""
    rows = WaitingExport.unscoped.filter(owner_id=owner_id, path=_stored_path(path))
    return rows.values_list("answer", flat=True).first() or {}


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
    rows = WaitingExport.unscoped.filter(owner_id=owner_id, path=_stored_path(path))
    rows.update(question="", is_due=False, **({} if values is None else {"answer": dict(values)}))


def _exports(folder: Path) -> dict[str, Path]:
    return {_stored_path(path): path for path in folder.iterdir()} if folder.is_dir() else {}


def _stored_path(path: Path) -> str:
    """Return the absolute path as text; PostgreSQL stores no bytes that are not UTF-8."""
    return os.fsencode(path.resolve()).decode(errors="backslashreplace")
