"""``manage.py prune``: forget old changes, bookmarks and blobs that nothing names."""

import argparse
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.access.oauth.codes import forget_families
from evidence.access.oauth.requests import forget_unused
from evidence.access.owner_notices import forget_refused
from evidence.erasure import retain
from evidence.reading.bookmarks import forget_bookmarks
from evidence.storing.retention import ORPHAN_AGE, prune_changes, prune_orphans


class Command(BaseCommand):
    """What ``manage.py run`` does every hour; running it again changes nothing."""

    help = (
        "Forget changes older than they are kept, blobs that no record names, and records that are"
        " older than 'keep' says."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--keep-days",
            type=_days,
            default=settings.PDPP_CHANGES_DAYS,
            metavar="N",
            help="How long the bookmark of a changes feed stays good (PDPP_CHANGES_DAYS).",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        finished = [each for each in retain(now=now) if each.finished_at is not None]
        records = sum(each.removed.get("records", 0) for each in finished)
        kept_since = now - timedelta(days=options["keep_days"])
        changes = prune_changes(kept_since=kept_since)
        bookmarks = forget_bookmarks(unused_since=kept_since)
        blobs = prune_orphans(unused_since=now - ORPHAN_AGE)
        programs, sign_ins = forget_unused(now), forget_families(now)
        refused = forget_refused(now)
        self.stdout.write(
            f"Forgot {changes} changes and {bookmarks} bookmarks from before"
            f" {kept_since:%Y-%m-%d %H:%M} UTC, and {blobs} blobs that no record names."
            f" Also {programs} programs that nobody signed in with, what was left of {sign_ins}"
            f" sign-ins, and {refused} refused calls."
            f" Erased {records} records that were older than they are kept."
        )


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise argparse.ArgumentTypeError("takes a whole number of days, from 0")
    return int(text)
