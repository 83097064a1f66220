"""Signed ids of the owner's forms, so that a form that is submitted twice takes effect once."""

import secrets

from django.core import signing
from django.http import HttpRequest

APPROVAL = "approval"
"""The name of the hidden field."""
_signer = signing.Signer(salt="pdpp/give-access")


def new_approval() -> str:
    """Return the value of the hidden field for a page."""
    return _signer.sign(secrets.token_urlsafe(16))


def read_approval(request: HttpRequest) -> str | None:
    """Return the id that the form carries; None without one that `new_approval` has signed."""
    try:
        return _signer.unsign(request.POST.get(APPROVAL, ""))
    except signing.BadSignature:
        return None
