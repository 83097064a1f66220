"""Failures are logged with place and type, without personal data."""

import io
import logging
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse

from operations.log_config import PrivateFormatter, PrivateJsonFormatter, RouteNameFilter
from owner.accounts import setup


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Return a buffer with the output of the configured log handler."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(PrivateFormatter("{levelname} {name}: {message}", style="{"))
    handler.addFilter(RouteNameFilter())
    loggers = [logging.getLogger(), logging.getLogger("django")]
    for logger in loggers:
        logger.addHandler(handler)
    yield written
    for logger in loggers:
        logger.removeHandler(handler)


def test_settings_configure_every_line() -> None:
    handlers = [*logging.getLogger("django").handlers, *logging.getLogger().handlers]
    ours = [each for each in handlers if type(each) is logging.StreamHandler]

    assert ours
    for handler in ours:
        assert isinstance(handler.formatter, PrivateFormatter)
        assert any(isinstance(each, RouteNameFilter) for each in handler.filters)


@pytest.mark.django_db
@pytest.mark.parametrize("token", ["the-token", "the-tökén", "the-\\token", "the-\x01token"])
def test_failure_is_logged_without_link_and_message(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    def fail(token: str, *, now: object) -> None:
        try:
            int(token)
        except ValueError as error:
            raise RuntimeError(f"again, {token}") from error

    monkeypatch.setattr(setup, "find_link", fail)
    client = Client(raise_request_exception=False)

    assert client.get(reverse("set-up", args=[token])).status_code == 500

    assert "ERROR django.request: Internal Server Error: /set-up/{token}/" in log.getvalue()
    assert "RuntimeError (from ValueError)" in log.getvalue()
    assert "in fail" in log.getvalue()
    assert "the-" not in log.getvalue()


@pytest.mark.django_db
def test_refusal_is_logged_once(log: io.StringIO) -> None:
    answer = Client().get(reverse("set-up", args=["the-token"]))

    assert answer.status_code == 410
    assert "the-token" not in log.getvalue()


def test_csrf_failure_is_logged_by_route(log: io.StringIO) -> None:
    strict = Client(enforce_csrf_checks=True)

    assert strict.post(reverse("set-up", args=["the-token"])).status_code == 403

    assert "Forbidden" in log.getvalue()
    assert "the-token" not in log.getvalue()


@pytest.mark.parametrize("header", ["HTTP_ORIGIN", "HTTP_REFERER"])
def test_csrf_failure_is_logged_without_the_address_that_a_stranger_sent(
    log: io.StringIO, header: str
) -> None:
    strict = Client(enforce_csrf_checks=True)
    sent = {header: f"https://stranger.example/{'x' * 50_000}", "wsgi.url_scheme": "https"}

    assert strict.post("/login", **sent).status_code == 403

    assert "checking failed - … does not match any trusted origins.): /login" in log.getvalue()
    assert "stranger" not in log.getvalue()


@pytest.mark.parametrize("formatter", [PrivateFormatter, PrivateJsonFormatter])
def test_a_long_message_is_cut(formatter: type[PrivateFormatter]) -> None:
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "%s", ("é" * 50_000,), None)

    line = formatter("{levelname} {name}: {message}", style="{").format(record)

    assert 1_000 < len(line) < 3_000
    assert "…" in line
