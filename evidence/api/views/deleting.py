"""``DELETE /v1/streams/{stream}/records`` and ``…/records/{id}``, by the owner (contract 3.5).

What was deleted is erased for good, with a receipt, and stays away when it is imported again, unless
``suppress=false`` says otherwise.
Deleting what is not there is no error, so that a request may be sent twice.
"""

from collections import deque

from django.utils import timezone
from rest_framework.response import Response

from evidence.api.base import GrantedView
from evidence.api.owned import owned_connection
from evidence.api.params import CONNECTION
from evidence.operating.erasing import erase_record, go_on
from evidence.refusals import NotFound
from evidence.storing.erasing import erase, erase_stream
from evidence.storing.erasures import Of, order

BY = "a program with an owner token"
PARAMETERS = CONNECTION | {"suppress"}


def delete_record(view: GrantedView, stream: str, record_id: str) -> Response:
    if "\x00" in record_id:
        raise NotFound(message="No record has such an id.")
    connection_id, now = _connection_id(view, stream), timezone.now()
    if _suppress(view):
        erase_record(
            connection_id, stream=stream, record_key=record_id, owner_id=view.scope.owner_id,
            by=BY, now=now,
        )  # fmt: skip
    else:
        erase(connection_id, stream=stream, record_key=record_id, suppress=False, now=now)
    return Response(status=204)


def delete_stream(view: GrantedView, stream: str) -> Response:
    connection_id, now = _connection_id(view, stream), timezone.now()
    if _suppress(view):
        made = order(
            Of.STREAM, owner_id=view.scope.owner_id, by=BY, now=now,
            connection_id=connection_id, stream=stream,
        )  # fmt: skip
        deque(go_on(made, now=now), maxlen=0)
    else:
        erase_stream(connection_id, stream=stream, now=now)
    return Response(status=204)


def _connection_id(view: GrantedView, stream: str) -> str:
    """The connection meant, of the owner's own, once it is certain that it has such a stream."""
    connection_id = owned_connection(view.scope, view.query)
    view.gate.stream(stream, connection_id=connection_id)
    return connection_id


def _suppress(view: GrantedView) -> bool:
    return view.query.choice("suppress", "true", "false", default="true") == "true"
