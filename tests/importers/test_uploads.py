"""Uploads that several processes could import at the same moment."""

import shutil
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.utils import timezone

from evidence.models.owners import get_or_create_owner
from importers.core.importer import ImportRequest
from importers.models import ImportRun
from importers.runs import runner, uploads
from importers.runs.preview import ExportPart, preview_export
from importers.runs.runner import ImportWorker, import_part
from importers.runs.uploads import Upload
from tests.importers.imports import TORTURE

MBOX = TORTURE / "mail.mbox"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "imports"


def queue_upload(workspace: Path) -> Upload:
    root = uploads.root_of(workspace, get_or_create_owner(timezone.now()).owner_id)
    upload = uploads.create_upload(root, name="mail.mbox", size=MBOX.stat().st_size)
    shutil.copy(MBOX, upload.path)
    upload.save(phase="wanted")
    return upload


def work(workspace: Path, *, stop_early: bool = False) -> list[object]:
    worker = ImportWorker(workspace, watch=None, seconds=0)
    if stop_early:
        worker.close()
    return list(worker.job())


def run_in_thread(call: Callable[[], object]) -> None:
    def run() -> None:
        try:
            call()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def mbox_part() -> ExportPart:
    now = timezone.now()
    owner_id = get_or_create_owner(now).owner_id
    return preview_export(MBOX, request=ImportRequest(), owner_id=owner_id, now=now).parts[0]


@pytest.mark.django_db(transaction=True)
def test_a_slow_import_keeps_its_upload_from_another_process(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload, done = queue_upload(workspace), list[object]()

    def slow(*args: Any, **kwargs: Any) -> Any:
        if not done:
            done.append(None)
            with time_machine.travel(timezone.now() + timedelta(hours=1)):
                run_in_thread(lambda: done.extend(work(workspace)))
        return preview_export(*args, **kwargs)

    monkeypatch.setattr(runner, "preview_export", slow)
    work(workspace)

    assert done == [None]
    assert upload.state.phase == "done"
    assert ImportRun.unscoped.count() == 1


@pytest.mark.django_db
def test_an_upload_that_another_process_has_finished_stays_done(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = queue_upload(workspace)
    queued = uploads.list_queued(upload.root)
    work(workspace)
    monkeypatch.setattr(uploads, "list_queued", lambda root: queued)

    assert work(workspace) == []

    assert upload.state.phase == "done"
    assert not upload.state.message


@pytest.mark.django_db
def test_an_upload_waits_while_the_same_export_is_being_imported(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = queue_upload(workspace)
    monkeypatch.setattr(runner, "BUSY_SECONDS", 0)
    phases = []

    def meanwhile(_: ImportRun) -> None:
        work(workspace)
        phases.append(upload.state.phase)

    import_part(
        mbox_part(), label="x", workspace=workspace, now=timezone.now(), on_progress=meanwhile
    )
    work(workspace)

    assert set(phases) == {"wanted"}
    assert upload.state.phase == "done"
