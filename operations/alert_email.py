"""Email the owner when an app was paused automatically, or asks to read more."""

import logging
from collections.abc import Iterator
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import send_mail
from django.utils import timezone

from evidence.access.owner_notices import AlertMessage, claim_unsent_alerts
from evidence.access.permission_requests import UnsentRequest, claim_unsent_requests
from evidence.models.accounts import get_or_create_owner

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 20.0
SUBJECT = "PDPP: an app was paused automatically"
REQUEST_SUBJECT = "PDPP: an app asks to read more"


def tell_owner() -> Iterator[None]:
    """Send one email per unsent alert or permission request, if PDPP_MAIL_URL and an address are configured.

    The function's name is a label in metrics.
    """
    owner = get_or_create_owner(timezone.now())
    address = settings.PDPP_MAIL_TO or (owner.user.email if owner.user is not None else "")
    if not settings.PDPP_MAIL_URL or not address:
        return
    try:
        for alert in claim_unsent_alerts(owner.pk, now=timezone.now()):
            send_mail(SUBJECT, _message(alert), address, [address])
            yield
        for request in claim_unsent_requests(owner.pk, now=timezone.now()):
            send_mail(REQUEST_SUBJECT, _request_message(request), address, [address])
            yield
    except (SMTPException, OSError) as error:
        logger.warning("email to the owner failed; retrying: %s", type(error).__name__)


def _message(alert: AlertMessage) -> str:
    return (
        f"{alert.sentence}\n\nThat was at {alert.at:%Y-%m-%d %H:%M} UTC. It reads nothing now. Resume"
        f" or disconnect it at {settings.PDPP_PUBLIC_URL}/connected .\n"
    )


def _request_message(request: UnsentRequest) -> str:
    return (
        f"{request.sentence}.\n\nIt reads nothing more until you answer, by"
        f" {request.expires_at:%Y-%m-%d %H:%M} UTC, at {settings.PDPP_PUBLIC_URL}/ .\n"
    )
