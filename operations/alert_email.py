"""Email the owner when an app was paused, an app asks to read more, or a live account needs them."""

import logging
from collections.abc import Iterator
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import send_mail
from django.utils import timezone

from evidence.access.owner_notices import AlertMessage, claim_unsent_alerts
from evidence.access.permission_requests import UnsentRequest, claim_unsent_requests
from evidence.models.accounts import get_or_create_owner
from evidence.models.source_accounts import SourceAccount
from evidence.storing.source_accounts import claim_mail, list_accounts
from importers.sources import status
from importers.sources.status import Notice

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 20.0
SUBJECT = "PDPP: an app was paused automatically"
ACCOUNT_SUBJECT = "PDPP: a live account needs you"
REQUEST_SUBJECT = "PDPP: an app asks to read more"
ACCOUNT_BODY = "{text}\n\nSee {url}/accounts .\n"


def tell_owner() -> Iterator[None]:
    """Send one email per unsent notice, if PDPP_MAIL_URL and an address are configured.

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
        for account, notice in _account_notices(owner.pk):
            with claim_mail(account, notice.key) as is_ours:
                if is_ours:
                    body = ACCOUNT_BODY.format(text=notice.text, url=settings.PDPP_PUBLIC_URL)
                    send_mail(ACCOUNT_SUBJECT, body, address, [address])
            yield
    except (SMTPException, OSError) as error:
        logger.warning("email to the owner failed; retrying: %s", type(error).__name__)


def _account_notices(owner_id: str) -> Iterator[tuple[SourceAccount, Notice]]:
    """Yield notices whose latest email was about something else."""
    now = timezone.now()
    for account in list_accounts(owner_id):
        notice = status.notice(account, now=now)
        if notice is not None and notice.key not in ("", account.mailed):
            yield account, notice


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
