"""``/v1/event-subscriptions``: who wants to be told of changes, and where (contract 6)."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence.access.gate import Gate
from evidence.api.base_views import GrantedView
from evidence.api.envelopes import instant
from evidence.api.json_io import read_object
from evidence.errors import InvalidRequest
from evidence.events import subscriptions
from evidence.ledger.entries import Shown
from evidence.models.events import Subscription

BODY_BYTES = 64 * 1024
Json = dict[str, Any]


class _SubscriptionsView(GrantedView):
    @override
    def shown_in(self, response: HttpResponseBase) -> Sequence[Shown]:
        """Nothing of any record."""
        return ()


class EventSubscriptionsView(_SubscriptionsView):
    """The caller's subscriptions, and one more."""

    def get(self, request: Request) -> Response:
        rows = subscriptions.subscriptions(self.scope)
        return Response({"data": [projection(row, self.gate) for row in rows]})

    def post(self, request: Request) -> Response:
        content = _members(request, "callback_url", "filters")
        made = subscriptions.subscribe(
            self.gate,
            callback_url=content.get("callback_url"),
            streams=_streams(content.get("filters")),
            now=timezone.now(),
        )
        row = made.subscription
        body = {
            "subscription_id": row.subscription_id,
            "secret": made.secret,
            "status": row.status,
            "callback_url": row.callback_url,
            "created_at": instant(row.created_at),
        }
        return Response(body, status=201)


class EventSubscriptionView(_SubscriptionsView):
    """One of them."""

    def get(self, request: Request, subscription_id: str) -> Response:
        return Response(projection(subscriptions.found(self.scope, subscription_id), self.gate))

    def patch(self, request: Request, subscription_id: str) -> Response:
        content = _members(request, "enabled", "rotate_secret")
        changed = subscriptions.change(
            self.scope,
            subscription_id,
            enabled=_flag(content, "enabled"),
            rotate_secret=_flag(content, "rotate_secret") is True,
            now=timezone.now(),
        )
        body: Json = {"subscription": projection(changed.subscription, self.gate)}
        return Response(body | ({} if changed.secret is None else {"secret": changed.secret}))

    def delete(self, request: Request, subscription_id: str) -> Response:
        subscriptions.unsubscribe(self.scope, subscription_id)
        return Response(status=204)


class EventTestView(_SubscriptionsView):
    """A message that tells of nothing, to see whether messages arrive."""

    def post(self, request: Request, subscription_id: str) -> Response:
        event_id = subscriptions.send_test(self.scope, subscription_id, now=timezone.now())
        return Response({"event_id": event_id}, status=202)


def projection(row: Subscription, gate: Gate) -> Json:
    """A subscription as its client sees it; never with its secret."""
    grants = sorted(str(grant.grant_id) for grant in gate.scope.grants)
    scope: Json = {"streams": subscriptions.granted(gate, among=row.streams)}
    if len(gate.sources) == 1:
        facts = gate.sources[0].facts
        scope["source"] = {"kind": facts.kind, "id": facts.source_id}
    if row.streams:
        scope["filters"] = {"streams": row.streams}
    return {
        "subscription_id": row.subscription_id,
        "authority_kind": "client_grant",
        "client_id": gate.scope.client_id,
        "grant_id": grants[0] if len(grants) == 1 else None,
        "grant_ids": grants,
        "callback_url": row.callback_url,
        "status": row.status,
        "scope": scope,
        "disabled_reason": row.disabled_reason,
        "created_at": instant(row.created_at),
        "updated_at": instant(row.updated_at),
    }


def _members(request: Request, *names: str) -> Json:
    content = read_object(request, most=BODY_BYTES)
    unknown = sorted(set(content) - set(names))
    if unknown:
        raise InvalidRequest(
            message=f"The body takes: {', '.join(names)}.", param=str(unknown[0])[:64]
        )
    return content


def _streams(filters: object) -> list[str] | None:
    if filters is None:
        return None
    if not isinstance(filters, Mapping) or not set(filters) <= {"streams"}:
        raise InvalidRequest(message="filters has one member, streams.", param="filters")
    streams = filters.get("streams")
    if streams is None:
        return None
    if (
        not isinstance(streams, list)
        or not streams
        or not all(isinstance(each, str) for each in streams)
    ):
        raise InvalidRequest(
            message="filters.streams is a list of names, at least one.", param="filters.streams"
        )
    return streams


def _flag(content: Json, name: str) -> bool | None:
    value = content.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidRequest(message=f"{name} is true or false.", param=name)
    return value
