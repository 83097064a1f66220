"""``manage.py prune``: delete expired changes, bookmarks and unreferenced blobs now."""

import argparse
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.access.grant_lifecycle import delete_old_requests
from evidence.access.owner_notices import delete_old_refused_calls
from evidence.erasure import apply_retention
from evidence.management.owner_command import EveryOwnerCommand
from evidence.models.owners import acting_for
from evidence.read.changes import delete_unused_bookmarks
from evidence.write import app_data
from evidence.write.retention import ORPHAN_AGE, prune_changes, prune_orphans


class Command(EveryOwnerCommand):
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
        kept_since = now - timedelta(days=options["keep_days"])
        deleted, expired = Counter[str](), Counter[str]()
        for owner_id in self.owner_ids(options):
            with acting_for(owner_id):
                deleted.update(_prune(kept_since, now))
                expired.update(app_data.delete_expired(now))
        self.stdout.write(
            f"Deleted {deleted['changes']} changes and {deleted['bookmarks']} bookmarks older than"
            f" {kept_since:%Y-%m-%d %H:%M} UTC, {deleted['blobs']} unreferenced blobs,"
            f" {', '.join(f'{count} {kind}' for kind, count in expired.items())} and"
            f" {deleted['refused calls']} refused calls."
            f" Erased {deleted['records']} records older than their retention period."
        )


def _prune(kept_since: datetime, now: datetime) -> dict[str, int]:
    """Prune the rows of the current owner, and return their number by kind."""
    finished = [erasure for erasure in apply_retention(now=now) if erasure.finished_at is not None]
    delete_old_requests(now)
    return {
        "records": sum(erasure.removed.get("records", 0) for erasure in finished),
        "changes": prune_changes(kept_since=kept_since),
        "bookmarks": delete_unused_bookmarks(unused_since=kept_since),
        "blobs": prune_orphans(unused_since=now - ORPHAN_AGE),
        "refused calls": delete_old_refused_calls(now),
    }


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise argparse.ArgumentTypeError("takes a number of days from 0")
    return int(text)
