"""``manage.py worker``: deliver events, apart from the process that serves."""

from threading import Event
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from operations import event_worker


class Command(BaseCommand):
    """``manage.py run`` does the same beside requests; further workers share the work."""

    help = "Deliver events to their receivers until SIGTERM or Ctrl-C."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        with event_worker.at_work():
            Event().wait()
