"""The access log contains route names, never record data."""

import logging

import pytest

from operations import access_log
from tests.pdpp_site.test_site import site
from tests.pdpp_site.web import served


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/", "/"),
        ("/mcp", "/mcp"),
        ("/mcp/", "/mcp"),
        ("/healthz", "/healthz"),
        ("/v1/schema", "/v1/schema"),
        ("/v1/streams/messages/records", "/v1/streams/{stream}/records"),
        ("/v1/streams/messages/records/m_9", "/v1/streams/{stream}/records/{record_id}"),
        (
            "/v1/streams/messages/records/a/b/field-window",
            "/v1/streams/{stream}/records/{record_id}/field-window",
        ),
        ("/v1/blobs/blob_1", "/v1/blobs/{blob_id}"),
        ("/v1/nothing/of/this", "/v1/…"),
        ("/set-up/the-token/", "/set-up/{token}/"),
        ("/records/cin_1/messages/m_9", "/records/{connection_id}/{stream}/{record_key}"),
        ("/admin/evidence/grant/grt_1/change/", "/admin/evidence/grant/{object_id}/change/"),
        ("/admin/nothing", "/admin/…"),
        ("/static/admin/css/base.css", "/static/…"),
        ("/what\nINFO forged", "/…"),
        ("/" + "x" * 500, "/…"),
    ],
)
def test_path_is_mapped_to_its_route_name(path: str, route: str) -> None:
    assert access_log.route_name(path) == route


def test_line_contains_no_query_and_no_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pdpp.access")

    with served(site()) as web:
        web.get("/v1/search?q=diagnosis", Authorization="Bearer pdpp_at_secret")

    (line,) = [record.getMessage() for record in caplog.records if record.name == "pdpp.access"]
    assert line.startswith("GET /v1/search 200 ")
    assert "diagnosis" not in caplog.text
    assert "secret" not in caplog.text
