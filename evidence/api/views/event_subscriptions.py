"""Create, change, test and delete event subscriptions (contract 6)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from evidence.access.gate import Gate
from evidence.api.base_views import Answer, Described, GrantedView, read_object
from evidence.api.envelopes import format_time
from evidence.errors import InvalidRequest
from evidence.events import subscriptions
from evidence.models.events import Subscription

MAX_BODY_BYTES = 64 * 1024
Json = dict[str, Any]


class EventSubscriptionsView(GrantedView):
    """List the client's subscriptions, or create one."""

    route = "event subscriptions"
    described: ClassVar = {
        "GET": Described("SubscriptionList"),
        "POST": Described("SubscriptionCreated", "201", "SubscriptionRequest"),
    }

    def get(self, request: Request) -> Answer:
        """List the event subscriptions of the client."""
        rows = subscriptions.list_subscriptions(self.scope)
        return Answer({"data": [subscription_body(row, self.gate) for row in rows]})

    def post(self, request: Request) -> Response:
        """Create an event subscription."""
        content = _members(request, "callback_url", "filters")
        created = subscriptions.create_subscription(
            self.gate,
            callback_url=content.get("callback_url"),
            streams=_streams(content.get("filters")),
            now=timezone.now(),
        )
        row = created.subscription
        body = {
            "subscription_id": row.subscription_id,
            "secret": created.secret,
            "status": row.status,
            "callback_url": row.callback_url,
            "created_at": format_time(row.created_at),
        }
        return Response(body, status=201)


class EventSubscriptionView(GrantedView):
    """Show, change or delete a subscription."""

    route = "event subscription"
    described: ClassVar = {
        "GET": Described("Subscription"),
        "PATCH": Described("SubscriptionChanged", takes="SubscriptionChange"),
        "DELETE": Described(status="204"),
    }

    def get(self, request: Request, subscription_id: str) -> Answer:
        """Get an event subscription."""
        return Answer(
            subscription_body(
                subscriptions.get_subscription(self.scope, subscription_id), self.gate
            )
        )

    def patch(self, request: Request, subscription_id: str) -> Response:
        """Enable, disable, or rotate the secret."""
        content = _members(request, "enabled", "rotate_secret")
        changed = subscriptions.update_subscription(
            self.scope,
            subscription_id,
            enabled=_flag(content, "enabled"),
            rotate_secret=_flag(content, "rotate_secret") is True,
            now=timezone.now(),
        )
        body: Json = {"subscription": subscription_body(changed.subscription, self.gate)}
        return Response(body | ({} if changed.secret is None else {"secret": changed.secret}))

    def delete(self, request: Request, subscription_id: str) -> Response:
        """Delete an event subscription."""
        subscriptions.delete_subscription(self.scope, subscription_id)
        return Response(status=204)


class EventTestView(GrantedView):
    """Send a test event without data."""

    route = "event test"
    described: ClassVar = {"POST": Described("EventAccepted", "202", "application/json")}

    def post(self, request: Request, subscription_id: str) -> Response:
        event_id = subscriptions.queue_test_event(self.scope, subscription_id, now=timezone.now())
        return Response({"event_id": event_id}, status=202)


def subscription_body(row: Subscription, gate: Gate) -> Json:
    """Return a subscription as its client sees it, without its secret."""
    grants = sorted(str(grant.grant_id) for grant in gate.scope.grants)
    scope: Json = {"streams": subscriptions.granted_streams(gate, among=row.streams)}
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
        "created_at": format_time(row.created_at),
        "updated_at": format_time(row.updated_at),
    }


def _members(request: Request, *names: str) -> Json:
    content = read_object(request, max_bytes=MAX_BODY_BYTES)
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
        raise InvalidRequest(message="filters takes one member, streams.", param="filters")
    streams = filters.get("streams")
    if streams is None:
        return None
    if (
        not isinstance(streams, list)
        or not streams
        or not all(isinstance(name, str) for name in streams)
    ):
        raise InvalidRequest(
            message="filters.streams takes a list of at least one name.", param="filters.streams"
        )
    return streams


def _flag(content: Json, name: str) -> bool | None:
    value = content.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidRequest(message=f"{name} takes true or false.", param=name)
    return value
