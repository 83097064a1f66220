"""Return the addresses of the pages of records and streams."""

from urllib.parse import quote, urlencode

from django.urls import reverse


def record_url(connection_id: str, stream: str, key: str) -> str:
    """Return the page of a record. Browsers would shorten a path that ends in dots."""
    end = quote(key, safe="") if key.strip(".") else f"?{urlencode({'key': key})}"
    return f"{reverse('record-list', args=[connection_id, stream])}{end}"


def stream_url(connection_id: str, stream: str, **query: object) -> str:
    """Return the page that lists a stream of a connection; empty parameters are left out."""
    chosen = {name: value for name, value in query.items() if value not in (None, "")}
    address = reverse("record-list", args=[connection_id, stream])
    return f"{address}?{urlencode(chosen)}" if chosen else address
