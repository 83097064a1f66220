"""What the owner says about an export, as words: on the command line and in a form."""

from collections.abc import Mapping

from evidence.importing.options import DATE_ORDERS, Options, zone_named
from evidence.importing.surveying import Wish
from evidence.refusals import InvalidRequest


def wish_of(words: Mapping[str, str]) -> Wish:
    """``kind``, ``connection``, ``languages`` (en,de), ``timezone``, ``date_order`` and
    ``columns`` (date=Buchungstag, a line each); all may be missing. Raises ``InvalidRequest``."""
    order = words.get("date_order") or None
    if order is not None and order not in DATE_ORDERS:
        raise InvalidRequest(message=f"{order!r} is no order of dates.", param="date_order")
    languages = (each.strip() for each in words.get("languages", "").split(","))
    return Wish(
        kind=words.get("kind") or None,
        connection=words.get("connection", "").strip() or None,
        languages=tuple(filter(None, languages)),
        options=Options(
            zone=zone_named(words.get("timezone", "").strip() or "UTC"),
            date_order=order,
            columns=dict(_pair(line) for line in words.get("columns", "").splitlines() if line),
        ),
    )


def _pair(text: str) -> tuple[str, str]:
    ours, equals, theirs = text.partition("=")
    if not equals:
        raise InvalidRequest(
            message=f"{text!r} is not OURS=THEIRS, such as date=Buchungstag.", param="columns"
        )
    return ours.strip(), theirs.strip()
