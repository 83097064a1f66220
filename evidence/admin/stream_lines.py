"""What a connection holds, stream by stream."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from evidence.access.describing import humanised, stream_label
from evidence.consent.wording import counted, when
from evidence.declarations.types import StreamDeclaration
from evidence.models.connections import Connection, StreamState
from evidence.models.declared import declared


@dataclass(frozen=True, slots=True)
class StreamLine:
    label: str
    detail: str
    holds: str
    latest: str
    url: str
    erase_url: str


def stream_lines(connection: Connection) -> list[StreamLine]:
    """Every declared stream, and any that is stored though nothing declares it any more.

    ``url`` is empty where there is nothing to look at, ``erase_url`` where nothing was ever stored.
    """
    states = {
        state.stream: state
        for state in StreamState.unscoped.filter(connection=connection).order_by("stream")
    }
    streams = _declared(connection)
    shown = connection.status != Connection.Status.REVOKED
    return [
        _line(
            name,
            stream=streams.get(name),
            state=states.get(name),
            url=list_url(connection.pk, name) if shown and name in streams else "",
            erase_url=erase_url(connection.pk, name) if name in states else "",
        )
        for name in [*streams, *(name for name in states if name not in streams)]
    ]


def list_url(connection_id: str, stream: str) -> str:
    query = urlencode({"connection": connection_id, "stream": stream})
    return f"{reverse('admin:evidence_record_list')}?{query}"


def erase_url(connection_id: str, stream: str) -> str:
    query = urlencode({"of": "stream", "connection": connection_id, "stream": stream})
    return f"{reverse('admin:evidence_erase')}?{query}"


def _declared(connection: Connection) -> dict[str, StreamDeclaration]:
    current = connection.source.current_declaration_id
    return {} if current is None else dict(declared([current])[current].declaration.streams)


def _line(
    name: str,
    *,
    stream: StreamDeclaration | None,
    state: StreamState | None,
    url: str,
    erase_url: str,
) -> StreamLine:
    return StreamLine(
        label=humanised(name) if stream is None else stream_label(stream),
        detail="no longer declared"
        if stream is None
        else stream.detail or stream.description or "",
        holds=counted(0 if state is None else state.record_count, "record"),
        latest=when(None if state is None else state.latest_emitted_at, never=""),
        url=url,
        erase_url=erase_url,
    )
