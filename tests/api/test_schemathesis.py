"""Generated requests against the document: no 5xx, no undocumented status, no other shape."""

from functools import cache
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from evidence.api.openapi import document
from pdpp_site.wsgi import application
from tests.world import World

pytestmark = pytest.mark.slow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
OPERATIONS = [
    (path, method)
    for path, operations in document()["paths"].items()
    for method in operations
    if method != "parameters"
]


@schemathesis.serializer("application/x-ndjson")
def _lines(_context: Any, value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


@cache
def _api() -> Any:
    schema = schemathesis.openapi.from_dict(document())
    schema.app = application
    return schema


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_answer_is_as_the_document_says(world: World, path: str, method: str) -> None:
    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=_api()[path][method.upper()].as_strategy())
    def check(case: Any) -> None:
        for who in ("alice", "bob"):
            case.call_and_validate(
                headers={"Authorization": f"Bearer {world.tokens[who]}"}, checks=CHECKS
            )

    check()
