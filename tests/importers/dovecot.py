"""A real IMAP server for tests: Dovecot as an unprivileged account, over TLS on a free port."""

import contextlib
import getpass
import grp
import imaplib
import os
import pwd
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from importers.authoring.https_server import write_certificate
from tests.pdpp_site.web import free_port

PROGRAM = "/usr/sbin/dovecot"
PASSWORD = "abcd-efgh-ijkl-mnop"
CONFIG = """
protocols = imap
base_dir = {base}/run
state_dir = {base}/state
log_path = {base}/log
listen = 127.0.0.1
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
default_vsz_limit = 0
first_valid_uid = 1
first_valid_gid = 1
mail_location = maildir:{base}/mail/%u
mail_fsync = never
mail_max_userip_connections = 100
auth_failure_delay = 0
auth_mechanisms = plain
ssl = required
ssl_cert = <{base}/server.pem
ssl_key = <{base}/server.key
ssl_dh =
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={base}/home/%u
}}
namespace inbox {{
  inbox = yes
  separator = .
  mailbox Trash {{
    special_use = \\Trash
    auto = create
  }}
}}
service anvil {{
  chroot =
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = 0
  }}
  inet_listener imaps {{
    address = 127.0.0.1
    port = {port}
    ssl = yes
  }}
}}
"""


def message(number: int, *, text: str = "", attachment: bytes | None = None) -> bytes:
    """Return a message that is different for every number."""
    head = (
        f"Message-ID: <{number}@mail.example>\r\nFrom: Bea <bea@mail.example>\r\n"
        f"To: ida@mail.example\r\nSubject: Letter {number}\r\n"
        f"Date: Mon, 05 Jan 2026 08:{number // 60 % 60:02}:{number % 60:02} +0000\r\n"
    )
    body = f"This is letter {number}. {text}\r\n"
    if attachment is None:
        return f"{head}\r\n{body}".encode()
    return (
        (
            f"{head}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n"
            f"Content-Type: text/plain\r\n\r\n{body}--b\r\nContent-Type: text/plain; name=a.txt\r\n"
            "Content-Disposition: attachment; filename=a.txt\r\n\r\n"
        ).encode()
        + attachment
        + b"\r\n--b--\r\n"
    )


def messages(numbers: Iterable[int]) -> Iterator[bytes]:
    for number in numbers:
        yield message(number)


@dataclass(frozen=True)
class Dovecot:
    """A server that runs. ``authority`` is the file with the certificate to trust."""

    base: Path
    port: int
    authority: Path

    def sign_in(self, user: str) -> imaplib.IMAP4_SSL:
        """Sign in as another program of the owner would."""
        context = ssl.create_default_context(cafile=self.authority)
        client = imaplib.IMAP4_SSL("localhost", self.port, ssl_context=context)
        client.login(user, PASSWORD)
        return client

    @contextlib.contextmanager
    def client(self, user: str) -> Iterator[imaplib.IMAP4_SSL]:
        client = self.sign_in(user)
        try:
            yield client
        finally:
            client.logout()

    def append(self, user: str, *messages: bytes, folder: str = "INBOX", flags: str = "") -> None:
        with self.client(user) as client:
            if folder != "INBOX":
                client.create(folder)
            for message in messages:
                answer, _ = client.append(folder, flags, None, message)
                assert answer == "OK"

    def fill(self, user: str, messages: Iterator[bytes], folder: str = "") -> int:
        """Put many messages into a folder at once, as files. Returns their number."""
        target = self.base / "mail" / user / (f".{folder}" if folder else "") / "new"
        for name in ("new", "cur", "tmp"):
            (target.parent / name).mkdir(parents=True, exist_ok=True)
        number = 0
        for number, message in enumerate(messages, 1):
            (target / f"{1_700_000_000 + number}.M{number}.test").write_bytes(message)
        _give_away(self.base / "mail")
        return number

    def renumber(self, user: str, folder: str = "") -> None:
        """Let the folder get a new UIDVALIDITY, as after a server was restored from a backup."""
        place = self.base / "mail" / user / (f".{folder}" if folder else "")
        for path in place.glob("dovecot*"):
            path.unlink()
        time.sleep(1.1)  # Dovecot takes the time in seconds as the new number


def _account() -> tuple[str, str]:
    """Return an account and group that Dovecot can run as: not root."""
    if os.geteuid() != 0:
        return getpass.getuser(), grp.getgrgid(os.getgid()).gr_name
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_name, grp.getgrgid(nobody.pw_gid).gr_name


def _give_away(path: Path) -> None:
    if os.geteuid() == 0:
        subprocess.run(["/bin/chown", "-R", ":".join(_account()), path], check=True)


@contextlib.contextmanager
def run_dovecot(*settings: str) -> Iterator[Dovecot]:
    """Start a server with an empty mailbox for every user name. Without Dovecot the test is skipped."""
    if not Path(PROGRAM).exists():
        pytest.skip("needs Debian's dovecot-imapd: make test-tools")
    base = Path(tempfile.mkdtemp(prefix="pdpp-dovecot-", dir="/tmp"))
    base.chmod(0o755)
    user, group = _account()
    port = free_port()
    for name in ("run", "state", "mail", "home"):
        (base / name).mkdir()
    write_certificate(base / "server", "localhost")
    config = CONFIG.format(base=base, user=user, group=group, port=port, password=PASSWORD)
    (base / "dovecot.conf").write_text("\n".join((config, *settings, "")))
    _give_away(base)
    as_account = {"user": user, "group": group, "extra_groups": []} if os.geteuid() == 0 else {}
    process = subprocess.Popen(
        [PROGRAM, "-F", "-c", base / "dovecot.conf"], **as_account, stderr=subprocess.PIPE
    )
    try:
        _wait(port, process, base)
        yield Dovecot(base, port, base / "server.pem")
    finally:
        process.terminate()
        process.communicate(timeout=60)
        shutil.rmtree(base, ignore_errors=True)


def _wait(port: int, process: subprocess.Popen[bytes], base: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    log = base / "log"
    process.kill()
    raise RuntimeError((process.communicate()[1], log.exists() and log.read_text()))
