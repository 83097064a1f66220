"""What cannot be run here, looked at: the container files, and names that must agree."""

import ipaddress
import json
import re
import shlex
from typing import Any

import pytest
import yaml
from django.conf import settings
from uvicorn.middleware.proxy_headers import _TrustedHosts

from evidence import limits
from pdpp_site import connections
from pdpp_site.request_bodies import DEFAULT_BYTES, LARGE_ROUTES, MCP_BYTES
from tests.deploy.shipped import ROOT, environment_file, parsed, text
from tests.pdpp_site.test_settings import documented

DOCKERFILE = "docker/Dockerfile"
IGNORED = ROOT / ".dockerignore"


def instructions() -> list[tuple[str, str]]:
    joined = text(DOCKERFILE).replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def last(name: str) -> str:
    return [rest for each, rest in instructions() if each == name][-1]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text("docker/compose.yaml"))
    return found


def test_everything_copied_into_the_image_is_there() -> None:
    copied = [shlex.split(rest) for name, rest in instructions() if name == "COPY"]
    sources = [
        source
        for parts in copied
        if not parts[0].startswith("--from")
        for source in parts[:-1]
    ]  # fmt: skip
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "bench"}

    assert packages <= set(sources)
    assert all((ROOT / source).exists() for source in sources)
    first, *lines = [line for line in IGNORED.read_text().splitlines() if line[0] != "#"]
    sent = [ROOT.glob(line[1:]) for line in lines if line[0] == "!"]
    assert first == "*"
    assert {path.relative_to(ROOT).as_posix() for each in sent for path in each} == set(sources)


def test_the_image_runs_what_the_service_runs_and_not_as_root() -> None:
    service = parsed(text("systemd/pdpp.service"))
    command = json.loads(last("CMD"))

    assert command[-2:] == service.command[-2:]
    assert f"/opt/pdpp/{command[0]}" == service.command[0]
    assert last("WORKDIR") == service.one("WorkingDirectory")
    assert last("USER").partition(":")[0] not in {"", "0", "root"}
    assert "/readyz" in last("HEALTHCHECK")


def test_the_containers_cannot_write_but_where_they_must(compose: dict[str, Any]) -> None:
    server = compose["services"]["server"]

    assert server["read_only"] is True
    assert server["cap_drop"] == ["ALL"]
    assert server["security_opt"] == ["no-new-privileges:true"]
    assert server["volumes"] == [f"kept:{last('VOLUME')}"]
    assert "ports" not in server
    assert "ports" not in compose["services"]["database"]
    for name in ("server", "proxy"):
        for condition in compose["services"][name]["depends_on"].values():
            assert condition == {"condition": "service_healthy"}


def test_every_variable_that_is_set_is_one_that_the_server_knows(compose: dict[str, Any]) -> None:
    image = set(re.findall(r"\b(PDPP_\w+)=", last("ENV")))
    units = {
        name
        for each in ("pdpp.service", "pdpp@.service")
        for name in parsed(text(f"systemd/{each}")).environment
    }
    named = image | units | set(compose["services"]["server"]["environment"])
    named |= set(environment_file("pdpp.env.example", commented=True))

    assert named - {"PYTHONDONTWRITEBYTECODE"} <= documented()


def test_the_server_believes_the_proxy_and_nobody_outside(compose: dict[str, Any]) -> None:
    trusted = compose["services"]["server"]["environment"]["PDPP_TRUSTED_PROXIES"]
    [inside] = compose["networks"]["inside"]["ipam"]["config"]

    assert trusted == inside["subnet"]
    believed = _TrustedHosts(trusted.split(","))
    assert str(ipaddress.ip_network(trusted)[7]) in believed
    assert "203.0.113.9" not in believed
    assert compose["services"]["server"]["networks"] == ["inside"]


def body_limits(name: str, pattern: str) -> list[int]:
    """Return the distinct body limits of a proxy configuration in bytes, smallest first."""
    units = {"k": 1024, "m": 1024**2, "KiB": 1024, "MiB": 1024**2}
    return sorted({int(count) * units[unit] for count, unit in re.findall(pattern, text(name))})


def test_proxies_take_what_the_server_takes_and_wait_as_long_as_hosts_do() -> None:
    served = sorted({DEFAULT_BYTES, MCP_BYTES} | {route.max_bytes for route in LARGE_ROUTES})
    assert body_limits("nginx/pdpp.conf", r"client_max_body_size (\d+)(\w+)") == served
    # Caddy's limits are a little higher, so that the server's own refusals arrive complete.
    caddy_limits = body_limits("caddy/Caddyfile", r"max_size (\d+)(\w+)")
    for caddy_limit, limit in zip(caddy_limits, served, strict=True):
        assert limit < caddy_limit <= 2 * limit
    for name in ("nginx/pdpp.conf", "caddy/Caddyfile"):
        [seconds] = re.findall(r"(?:proxy_read_timeout|response_header_timeout) (\d+)s", text(name))
        assert int(seconds) >= 300


def test_proxies_name_every_route_that_takes_a_large_body() -> None:
    nginx = [
        re.compile(each) for each in re.findall(r"location ~ (\S+) \{", text("nginx/pdpp.conf"))
    ]
    caddy = re.findall(r"(/\S+)\*", text("caddy/Caddyfile"))
    for route in LARGE_ROUTES:
        large = [each for each in nginx if each.search(f"{route.prefix}x")]
        assert large, route.prefix
        assert (large[0] is nginx[0]) == (route.max_bytes == limits.INGEST_MAX_BYTES)
        assert route.prefix in caddy


def test_proxies_and_units_have_the_deadlines_and_limits_of_the_server() -> None:
    nginx, caddy = text("nginx/pdpp.conf"), text("caddy/Caddyfile")

    assert f"client_header_timeout {connections.HEADER_SECONDS:.0f}s;" in nginx
    assert f"limit_conn pdpp_clients {settings.PDPP_CLIENT_CONNECTIONS};" in nginx
    assert "large_client_header_buffers 2 32k;" in nginx
    assert connections.HEADER_BYTES == 64 * 1024
    assert "proxy_request_buffering on;" in nginx
    assert f"read_header {connections.HEADER_SECONDS:.0f}s" in caddy
    assert "max_header_size 64KiB" in caddy
    for name in ("pdpp.service", "pdpp@.service", "user/pdpp.service"):
        files = int(parsed(text(f"systemd/{name}")).one("LimitNOFILE"))
        assert files // 2 >= settings.PDPP_CONNECTIONS


def test_pgbouncer_pools_transactions_and_listens_where_its_comment_says() -> None:
    port = re.search(r"listen_port = (\d+)", text("pgbouncer/pgbouncer.ini"))
    assert port is not None
    assert f":{port[1]}/" in text("pgbouncer/pgbouncer.ini").partition("[databases]")[0]
    assert "pool_mode = transaction" in text("pgbouncer/pgbouncer.ini")
