"""The shipped proxies in front of a port of this machine, with a certificate of the test's own."""

import contextlib
import os
import pwd
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2

from tests.deploy.shipped import text
from tests.operations.proxy import self_signed
from tests.pdpp_site.web import free_port
from tests.tools import require_program

NGINX = """
daemon off;
pid {home}/nginx.pid;
error_log {home}/error.log;
{account}
events {{ }}
http {{
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    include {home}/pdpp.conf;
}}
"""
CERTIFICATES = "/etc/letsencrypt/live/records.example"


@dataclass(frozen=True)
class Front:
    """Where a proxy listens, and how to trust it."""

    url: str
    plain: str
    trusting: ssl.SSLContext

    def client(self, *, timeout: float = 60) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, verify=self.trusting, timeout=timeout)


@dataclass(frozen=True)
class Ports:
    """Chosen before anything listens: the servers behind must know their public address."""

    https: int
    http: int

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.https}"


def ports() -> Ports:
    return Ports(free_port(), free_port())


Shipped = Callable[[Path, Ports, Sequence[int]], list[str]]
"""Writes the configuration into a directory, where the certificate is; the command to run it."""


def nginx(home: Path, chosen: Ports, upstreams: Sequence[int]) -> list[str]:
    program = require_program("nginx")
    servers = "".join(f"server 127.0.0.1:{port};" for port in upstreams)
    changed = {
        "listen 80;\n    listen [::]:80;": f"listen 127.0.0.1:{chosen.http};",
        "listen 443 ssl http2;\n    listen [::]:443 ssl http2;": (
            f"listen 127.0.0.1:{chosen.https} ssl http2;"
        ),
        "server 127.0.0.1:8000;": servers,
        f"{CERTIFICATES}/fullchain.pem": f"{home}/both.pem",
        f"{CERTIFICATES}/privkey.pem": f"{home}/both.pem",
        "records.example": "127.0.0.1",
    }
    (home / "pdpp.conf").write_text(text("nginx/pdpp.conf", changed))
    account = f"user {pwd.getpwuid(0).pw_name} root;" if os.geteuid() == 0 else ""
    (home / "nginx.conf").write_text(NGINX.format(home=home, account=account))
    return [program, "-p", str(home), "-c", f"{home}/nginx.conf", "-e", f"{home}/error.log"]


def caddy(home: Path, chosen: Ports, upstreams: Sequence[int]) -> list[str]:
    program = require_program("caddy")
    ours = f"{chosen.url} {{\n\ttls {home}/both.pem {home}/both.pem"
    changed = {
        "{\n\tservers {": f"{{\n\tadmin off\n\thttp_port {chosen.http}\n\tservers {{",
        "{$PDPP_HOST:records.example} {": ours,
        "{$PDPP_UPSTREAM:127.0.0.1:8000}": " ".join(f"127.0.0.1:{port}" for port in upstreams),
    }
    (home / "Caddyfile").write_text(text("caddy/Caddyfile", changed))
    return [program, "run", "--config", f"{home}/Caddyfile", "--adapter", "caddyfile"]


@contextlib.contextmanager
def front(shipped: Shipped, chosen: Ports, upstreams: Sequence[int]) -> Iterator[Front]:
    """A proxy of ``deploy/`` until the block ends."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        (home / "both.pem").write_bytes(self_signed())
        trusting = ssl.create_default_context(cafile=home / "both.pem")
        command = shipped(home, chosen, upstreams)
        with (home / "said.log").open("w+") as said:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=home,
                env={"PATH": os.environ["PATH"], "HOME": str(home), "XDG_DATA_HOME": str(home),
                     "XDG_CONFIG_HOME": str(home)},
            )  # fmt: skip
            try:
                _await_listening(process, chosen.https, home / "said.log")
                yield Front(chosen.url, f"http://127.0.0.1:{chosen.http}", trusting)
            finally:
                process.terminate()
                process.wait(60)


def _await_listening(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
            raise AssertionError(f"the proxy ended: {log.read_text()}")
