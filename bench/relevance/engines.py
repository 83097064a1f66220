"""The search engines to compare: the REST view, and PostgreSQL's full-text search."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
from django.test import Client

from bench.relevance import judged
from bench.relevance.judged import DEPTH, JudgedQuery, Key, Scores
from demo import life

Engine = Callable[[str], list[Key]]
"""Returns the record keys of a query, best first."""

_PLAIN = """
    SELECT connection_id, stream, record_key FROM plain, plainto_tsquery('simple', %s) asked
    WHERE terms @@ asked
    ORDER BY ts_rank(terms, asked) DESC, connection_id, stream, record_key LIMIT %s
"""


def score(engine: Engine, queries: Sequence[JudgedQuery]) -> list[Scores]:
    """Return the scores of each query."""
    return [judged.score(engine(query.text), query.grades) for query in queries]


def modes(token: str) -> list[str]:
    """Return the search modes of this installation."""
    client = Client(headers={"Authorization": f"Bearer {token}", "Host": "localhost"})
    connectors = client.get("/v1/schema").json()["connectors"]
    streams = [stream for connector in connectors for stream in connector["streams"]]
    return list(dict.fromkeys(mode for stream in streams for mode in stream["search_modes"]))


def rest(token: str, **parameters: str) -> Engine:
    """Return an engine that calls `GET /v1/search` in this process."""
    client = Client(headers={"Authorization": f"Bearer {token}", "Host": "localhost"})

    def ask(q: str) -> list[Key]:
        response = client.get("/v1/search", {"q": q, "limit": str(DEPTH), **parameters})
        if response.status_code != 200:
            raise RuntimeError(f"{q}: {response.content.decode()}")
        return [_key(hit) for hit in response.json()["data"]]

    return ask


def baseline() -> Engine:
    """Return an engine that uses `plainto_tsquery` and `ts_rank` over `to_tsvector('simple')`."""
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
    """Yield key and searchable text of every record that has one."""
    fields = {
        (declaration["connector_key"], stream["name"]): search["lexical_fields"]
        for declaration in life.declarations()
        for stream in declaration["streams"]
        if (search := stream.get("query", {}).get("search"))
    }
    for record in life.records():
        names = fields.get((record["connector_key"], record["stream"]), ())
        text = "\n".join(value for name in names if (value := record["data"].get(name)))
        if text:
            yield record["connection_id"], record["stream"], record["key"], text


def _key(hit: dict[str, Any]) -> Key:
    return hit["connection_id"], hit["stream"], hit["record_key"]
