"""Where changes are told to, for the owner to see."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from evidence.models.events import Subscription


def receivers_by_client(owner_id: str) -> Mapping[str, list[str]]:
    """client_id -> the hosts that its subscriptions tell now, in order; one query."""
    rows = Subscription.unscoped.filter(
        package__owner_id=owner_id, status=Subscription.Status.ACTIVE
    ).values_list("package__client_id", "callback_url")
    found: dict[str, set[str]] = {}
    for client_id, url in rows:
        found.setdefault(client_id, set()).add(urlsplit(url).netloc)
    return {client_id: sorted(hosts) for client_id, hosts in found.items()}
