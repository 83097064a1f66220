"""``manage.py worker``: deliver events in a separate process."""

from threading import Event
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from operations import event_worker, job_wakeups


class Command(BaseCommand):
    """``manage.py run`` also delivers events; additional workers share the work."""

    help = "Deliver events to their receivers until SIGTERM or Ctrl-C."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        with job_wakeups.listen(), event_worker.deliver_events():
            Event().wait()
