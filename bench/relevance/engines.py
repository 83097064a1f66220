"""What is asked: our REST view, and PostgreSQL's own full-text search over the same records."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
from django.test import Client

from bench.relevance import judged
from bench.relevance.judged import DEPTH, Judged, Key, Worth
from demo import life

Engine = Callable[[str], list[Key]]
"""The first hits of a query, best first."""

_PLAIN = """
    SELECT connection_id, stream, record_key FROM plain, plainto_tsquery('simple', %s) asked
    WHERE terms @@ asked
    ORDER BY ts_rank(terms, asked) DESC, connection_id, stream, record_key LIMIT %s
"""


def worth(engine: Engine, queries: Sequence[Judged]) -> list[Worth]:
    """What the engine's answer to each query is worth."""
    return [judged.worth(engine(query.text), query.grades) for query in queries]


def modes(token: str) -> list[str]:
    """The modes that a token has on this installation."""
    client = Client(headers={"Authorization": f"Bearer {token}", "Host": "localhost"})
    connectors = client.get("/v1/schema").json()["connectors"]
    streams = [stream for connector in connectors for stream in connector["streams"]]
    return list(dict.fromkeys(mode for stream in streams for mode in stream["search_modes"]))


def rest(token: str, **parameters: str) -> Engine:
    """`GET /v1/search`, through the view in this process."""
    client = Client(headers={"Authorization": f"Bearer {token}", "Host": "localhost"})

    def ask(q: str) -> list[Key]:
        answer = client.get("/v1/search", {"q": q, "limit": str(DEPTH), **parameters})
        if answer.status_code != 200:
            raise RuntimeError(f"{q}: {answer.content.decode()}")
        return [_key(hit) for hit in answer.json()["data"]]

    return ask


def baseline() -> Engine:
    """`plainto_tsquery` and `ts_rank` over `to_tsvector('simple')`, as most programs use them."""
    connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    connection.execute(
        "CREATE TEMP TABLE plain (connection_id text, stream text, record_key text, terms tsvector)"
    )
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO plain VALUES (%s, %s, %s, to_tsvector('simple', %s))", _texts()
        )
    connection.execute("CREATE INDEX ON plain USING gin (terms)")

    def ask(q: str) -> list[Key]:
        return list(connection.execute(_PLAIN, (q, DEPTH)))

    return ask


def _texts() -> Iterator[tuple[str, str, str, str]]:
    """Every record with a searchable text, under its key."""
    fields = {
        (declaration["connector_key"], stream["name"]): search["lexical_fields"]
        for declaration in life.declarations()
        for stream in declaration["streams"]
        if (search := stream.get("query", {}).get("search"))
    }
    for line in life.records():
        names = fields.get((line["connector_key"], line["stream"]), ())
        text = "\n".join(value for name in names if (value := line["data"].get(name)))
        if text:
            yield line["connection_id"], line["stream"], line["key"], text


def _key(hit: dict[str, Any]) -> Key:
    return hit["connection_id"], hit["stream"], hit["record_key"]
