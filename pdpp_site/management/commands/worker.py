"""``manage.py worker``: run background jobs in a separate process."""

from threading import Event
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from operations import jobs
from pdpp_site import background


class Command(BaseCommand):
    """``manage.py run`` also runs them; each job runs in one process at a time."""

    help = "Run background jobs until SIGTERM or Ctrl-C."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        with jobs.run_jobs(background.registry()):
            Event().wait()
