"""JSON Schemas of bodies of writes: event subscriptions, declarations, records, blobs, connections."""

from evidence.api.openapi.schemas import (
    ANY_OBJECT,
    INTEGER,
    MOMENT,
    STRING,
    Json,
    array,
    listing,
    nullable,
    obj,
    ref,
)
from evidence.events.messages import PDPP_VERSION, SPEC_VERSION
from evidence.models.events import Event, Subscription

STATUS: Json = {"enum": [*Subscription.Status.values, "deleted"]}
NAMES = array(STRING)
CLOSED: Json = {"additionalProperties": False}

WRITE_SCHEMAS: dict[str, Json] = {
    "ConnectorList": obj({"object": {"const": "list"}, "data": array(ANY_OBJECT)}),
    "Connector": obj({"connector_id": STRING, "connector_key": STRING, "version": STRING}),
    "Declaration": ANY_OBJECT,
    "IngestReceipt": obj(
        {
            "stream": STRING,
            "records_attempted": INTEGER,
            "records_accepted": INTEGER,
            "records_rejected": INTEGER,
            "rejections": array(
                obj({"input_index": INTEGER, "code": STRING, "receipt_id": STRING})
            ),
        }
    ),
    "OwnerConnection": obj(
        {"connection_id": STRING, "display_name": STRING, "label_status": STRING, "status": STRING}
    ),
    "OwnerConnectionList": listing(ref("OwnerConnection")),
    "CollectorState": obj(
        {
            "object": {"const": "collector_state"},
            "connector_id": STRING,
            "grant_id": nullable(STRING),
            "state": ANY_OBJECT,
            "updated_at": nullable(MOMENT),
        }
    ),
    "Blob": obj(
        {
            "object": {"const": "blob"},
            "blob_id": STRING,
            "sha256": STRING,
            "size_bytes": INTEGER,
            "mime_type": STRING,
        }
    ),
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
