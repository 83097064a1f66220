"""``manage.py prune``: delete expired changes, bookmarks and unreferenced blobs now."""

import argparse
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.access.owner_notices import delete_old_refused_calls
from evidence.access.permission_requests import delete_old_requests
from evidence.erasure import apply_retention
from evidence.read.bookmarks import delete_unused_bookmarks
from evidence.write import app_data
from evidence.write.retention import ORPHAN_AGE, prune_changes, prune_orphans


class Command(BaseCommand):
    """``manage.py run`` does the same every hour."""

    help = (
        "Delete expired changes, unreferenced blobs and old records. A running server does so"
        " every hour. See the command keep."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--keep-days",
            type=_days,
            default=settings.PDPP_CHANGES_DAYS,
            metavar="N",
            help="Days that bookmarks of the changes feed remain valid (PDPP_CHANGES_DAYS).",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        finished = [
            erasure for erasure in apply_retention(now=now) if erasure.finished_at is not None
        ]
        records = sum(erasure.removed.get("records", 0) for erasure in finished)
        kept_since = now - timedelta(days=options["keep_days"])
        changes = prune_changes(kept_since=kept_since)
        bookmarks = delete_unused_bookmarks(unused_since=kept_since)
        blobs = prune_orphans(unused_since=now - ORPHAN_AGE)
        expired = app_data.delete_expired(now)
        refused_calls = delete_old_refused_calls(now)
        delete_old_requests(now)
        self.stdout.write(
            f"Deleted {changes} changes and {bookmarks} bookmarks older than"
            f" {kept_since:%Y-%m-%d %H:%M} UTC, {blobs} unreferenced blobs,"
            f" {', '.join(f'{count} {kind}' for kind, count in expired.items())} and"
            f" {refused_calls} refused calls."
            f" Erased {records} records older than their retention period."
        )


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise argparse.ArgumentTypeError("takes a number of days from 0")
    return int(text)
