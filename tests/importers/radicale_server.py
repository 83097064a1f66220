"""A real CalDAV and CardDAV server for tests: Radicale over TLS on a free port."""

import contextlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx2

from importers.authoring.https_server import write_certificate
from tests.pdpp_site.web import free_port

PASSWORD = "abcd-efgh-ijkl-mnop"
CONFIG = """
[server]
hosts = 127.0.0.1:{port}
ssl = True
certificate = {base}/server.pem
key = {base}/server.key
max_connections = 100
[auth]
type = htpasswd
htpasswd_filename = {base}/users
htpasswd_encryption = plain
delay = 0
[storage]
filesystem_folder = {base}/collections
[rights]
type = owner_only
[logging]
level = error
"""
MAKE_CALENDAR = """<?xml version="1.0"?>
<C:mkcalendar xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><set><prop>
<displayname>{title}</displayname><C:supported-calendar-component-set><C:comp name="{component}"/>
</C:supported-calendar-component-set></prop></set></C:mkcalendar>"""
MAKE_ADDRESS_BOOK = """<?xml version="1.0"?>
<mkcol xmlns="DAV:" xmlns:CR="urn:ietf:params:xml:ns:carddav"><set><prop>
<resourcetype><collection/><CR:addressbook/></resourcetype><displayname>{title}</displayname>
</prop></set></mkcol>"""


@dataclass
class Radicale:
    """A server that runs. ``authority`` is the file with the certificate to trust."""

    base: Path
    port: int
    authority: Path

    def url(self, path: str = "/", port: int | None = None) -> str:
        return f"https://localhost:{port or self.port}{path}"

    def request(self, user: str, method: str, path: str, content: str = "") -> None:
        """Send a request as another program of the owner would."""
        context = ssl.create_default_context(cafile=self.authority)
        with httpx2.Client(verify=context, auth=(user, PASSWORD), trust_env=False) as client:
            url = self.url(f"/{user}/{path}")
            client.request(method, url, content=content.encode()).raise_for_status()

    def add_calendar(self, user: str, name: str, title: str, component: str = "VEVENT") -> None:
        content = MAKE_CALENDAR.format(title=title, component=component)
        self.request(user, "MKCALENDAR", f"{name}/", content)

    def add_address_book(self, user: str, name: str, title: str) -> None:
        self.request(user, "MKCOL", f"{name}/", MAKE_ADDRESS_BOOK.format(title=title))

    def put(self, user: str, path: str, content: str) -> None:
        self.request(user, "PUT", path, content)

    def delete(self, user: str, path: str) -> None:
        self.request(user, "DELETE", path)

    def fill(self, user: str, folder: str, files: Mapping[str, str]) -> None:
        """Put many entries into a collection at once, as files."""
        place = self.base / "collections" / "collection-root" / user / folder
        for name, content in files.items():
            (place / name).write_bytes(content.encode())


@contextlib.contextmanager
def run_radicale(users: int) -> Iterator[Radicale]:
    """Start a server with empty accounts ``ida0@mail.example`` and so on."""
    base = Path(tempfile.mkdtemp(prefix="pdpp-radicale-", dir="/tmp"))
    port = free_port()
    write_certificate(base / "server", "localhost")
    names = (f"ida{number}@mail.example" for number in range(users))
    (base / "users").write_text("".join(f"{name}:{PASSWORD}\n" for name in names))
    (base / "config").write_text(CONFIG.format(base=base, port=port))
    process = subprocess.Popen(
        [sys.executable, "-m", "radicale", "--config", base / "config"], stderr=subprocess.PIPE
    )
    try:
        _wait(port, process)
        yield Radicale(base, port, base / "server.pem")
    finally:
        process.terminate()
        process.communicate(timeout=60)
        shutil.rmtree(base, ignore_errors=True)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    process.kill()
    raise RuntimeError(process.communicate()[1])
