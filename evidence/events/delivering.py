"""One attempt at one event: prepared through the gate, sent, and settled by what was answered.

No transaction is open while the receiver is talked to.
"""

import logging
import random
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from django.utils import timezone

from evidence.events.messages import Message
from evidence.events.posting import Answered, post
from evidence.events.preparing import prepare
from evidence.events.settling import settle

logger = logging.getLogger(__name__)

Clock: TypeAlias = Callable[[], datetime]
Send: TypeAlias = Callable[[Message], Answered]


def send(message: Message) -> Answered:
    return post(message.url, headers=message.headers, body=message.body)


def attempt(event_id: str, *, clock: Clock = timezone.now, send: Send = send) -> None:
    """Delivers an event, or arranges for another attempt; nothing where it must not go out."""
    prepared = prepare(event_id, now=clock())
    if prepared is None:
        return
    answered = send(prepared.message)
    settled = settle(
        event_id, answered, attempts=prepared.number, now=clock(), jitter=random.uniform
    )
    logger.info("event %s: answered %s, now %s", event_id, answered.status or "nothing", settled)
