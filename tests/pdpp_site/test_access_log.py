"""The log of requests tells routes, never records."""

import logging

import pytest

from pdpp_site import access_log
from tests.pdpp_site.test_site import site
from tests.pdpp_site.web import served


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/", "/"),
        ("/mcp", "/mcp"),
        ("/v1/schema", "/v1/schema"),
        ("/v1/streams/messages/records", "/v1/streams/messages/records"),
        ("/v1/streams/messages/records/m_9", "/v1/streams/messages/records/…"),
        ("/v1/streams/messages/records/a/b/field-window", "/v1/streams/messages/records/…"),
        ("/v1/blobs/blob_1", "/v1/blobs/…"),
        ("/v1/ingest/messages", "/v1/ingest/…"),
        ("/set-up/the-token/", "/set-up/…"),
        ("/admin/evidence/grant/grt_1/change/", "/admin/evidence/grant/…"),
        ("/static/admin/css/base.css", "/static/…"),
        ("/what\nINFO forged", "/what?INFO forged"),
        ("/" + "x" * 500, "/" + "x" * 120),
    ],
)
def test_a_path_is_cut_down_to_its_route(path: str, route: str) -> None:
    assert access_log.route(path) == route


def test_a_line_has_neither_query_nor_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pdpp.access")

    with served(site()) as web:
        web.get("/v1/search?q=diagnosis", Authorization="Bearer pdpp_at_secret")

    (line,) = [record.getMessage() for record in caplog.records if record.name == "pdpp.access"]
    assert line.startswith("GET /v1/search 200 ")
    assert "diagnosis" not in caplog.text
    assert "secret" not in caplog.text
