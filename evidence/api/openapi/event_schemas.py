"""JSON Schemas of event subscription bodies."""

from evidence.api.openapi.schemas import INTEGER, MOMENT, STRING, Json, array, nullable, obj, ref
from evidence.events.messages import PDPP_VERSION, SPEC_VERSION
from evidence.models.events import Event, Subscription

STATUS: Json = {"enum": [*Subscription.Status.values, "deleted"]}
NAMES = array(STRING)
CLOSED: Json = {"additionalProperties": False}

EVENT_SCHEMAS: dict[str, Json] = {
    "SubscriptionRequest": obj(
        {"callback_url": {"type": "string", "format": "uri", "maxLength": 2048}},
        {"filters": obj({}, {"streams": {**NAMES, "minItems": 1}}) | CLOSED},
    )
    | CLOSED,
    "SubscriptionChange": obj(
        {}, {"enabled": {"type": "boolean"}, "rotate_secret": {"type": "boolean"}}
    )
    | CLOSED,
    "SubscriptionCreated": obj(
        {
            "subscription_id": STRING,
            "secret": STRING,
            "status": STATUS,
            "callback_url": STRING,
            "created_at": MOMENT,
        }
    ),
    "Subscription": obj(
        {
            "subscription_id": STRING,
            "authority_kind": {"const": "client_grant"},
            "client_id": nullable(STRING),
            "grant_id": nullable(STRING),
            "grant_ids": NAMES,
            "callback_url": STRING,
            "status": STATUS,
            "scope": obj(
                {"streams": NAMES},
                {
                    "source": obj({"kind": STRING, "id": STRING}),
                    "filters": obj({"streams": NAMES}),
                },
            ),
            "disabled_reason": nullable(STRING),
            "created_at": MOMENT,
            "updated_at": MOMENT,
        }
    ),
    "SubscriptionList": obj({"data": array(ref("Subscription"))}),
    "SubscriptionChanged": obj({"subscription": ref("Subscription")}, {"secret": STRING}),
    "EventAccepted": obj({"event_id": STRING}),
    "Event": obj(
        {
            "specversion": {"const": SPEC_VERSION},
            "pdppversion": {"const": PDPP_VERSION},
            "id": STRING,
            "type": {"enum": list(Event.Type.values)},
            "source": STRING,
            "time": MOMENT,
            "datacontenttype": {"const": "application/json"},
            "data": obj(
                {"subscription_id": STRING},
                {
                    "challenge": STRING,
                    "stream": STRING,
                    "connection_id": STRING,
                    "change_count_hint": INTEGER,
                    "changes_since": STRING,
                    "reason": nullable(STRING),
                },
            ),
        }
    ),
}
