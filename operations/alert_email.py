"""Mail to the owner about what happened by itself; the same stands on their pages until seen."""

import logging
from collections.abc import Iterator
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import send_mail
from django.utils import timezone

from evidence.access.owner_notices import Told, to_be_mailed
from evidence.models.accounts import the_owner

logger = logging.getLogger(__name__)

SECONDS = 20.0
SUBJECT = "PDPP: an app was paused automatically"


def tell_owner() -> Iterator[None]:
    """One mail for each alert, where there is a server to send by and an address to send to."""
    owner = the_owner(timezone.now())
    address = settings.PDPP_MAIL_TO or (owner.user.email if owner.user is not None else "")
    if not settings.PDPP_MAIL_URL or not address:
        return
    try:
        for told in to_be_mailed(owner.pk, now=timezone.now()):
            send_mail(SUBJECT, _text(told), address, [address])
            yield
    except (SMTPException, OSError) as error:
        logger.warning("mail to the owner is sent later: %s", type(error).__name__)


def _text(told: Told) -> str:
    return (
        f"{told.sentence}\n\nThat was at {told.at:%Y-%m-%d %H:%M} UTC. It reads nothing now. Resume"
        f" or disconnect it at {settings.PDPP_PUBLIC_URL}/connected .\n"
    )
