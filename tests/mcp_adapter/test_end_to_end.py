"""The journey of an agent through the real endpoint, on the real database."""

import pytest

from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import ERAS, refusal, seen, structured, text_of
from tests.world import World

pytestmark = pytest.mark.django_db


def test_show(world: World) -> None:
    token = world.tokens["dora@mcp"]
    for tool, args in [
        ("schema", {}),
        ("schema", {"stream": "messages"}),
        ("search", {"q": "lease"}),
        ("query_records", {"stream": "messages"}),
        ("fetch", {"id": "messages:m1"}),
        ("fetch", {"id": "cin_personal/messages:m1"}),
        ("read_record_field", {"id": "cin_personal/messages:m1", "field_path": "labels"}),
        ("schema", {"stream": "messages", "detail": "full"}),
        ("schema", {"stream": "messages", "detail": "full", "connection_id": "cin_personal"}),
        ("aggregate", {"stream": "messages", "metric": "count"}),
        ("search", {"q": "lease", "mode": "hybrid"}),
        (
            "query_records",
            {"stream": "messages", "expand": ["thread"], "connection_id": "cin_personal"},
        ),
    ]:
        for era in ERAS:
            r = real.call(token, tool, era=era, **args)
        print(tool, args, r.is_error, len(text_of(r)))
        print(text_of(r)[:2500])
        print()
    assert 0
