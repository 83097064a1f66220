"""What some tests need besides `make test`: Debian's programs, and extras of this project.

A test that lacks one is skipped with a reason that names the package and the make target which
installs it. CI installs everything and fails on a skipped test (tests/conftest.py).
"""

import os
import shutil

import pytest

PACKAGES = {
    "age": "age",
    "caddy": "caddy",
    "chromedriver": "chromium and chromium-driver",
    "chromium": "chromium and chromium-driver",
    "dovecot": "dovecot-imapd",
    "nginx": "nginx-light",
    "pgbouncer": "pgbouncer",
    "rclone": "rclone",
    "restic": "restic",
    "systemd-analyze": "systemd",
}
"""Debian's packages by program. `make test-tools` installs them."""


def require_program(name: str) -> str:
    """Return the path of a program, which may lie in /usr/sbin, or skip the test."""
    path = os.environ.get("PATH", os.defpath) + os.pathsep + "/usr/sbin"
    if (found := shutil.which(name, path=path)) is None:
        pytest.skip(f"needs Debian's {PACKAGES[name]}: make test-tools")
    return found


def needs_extra(extra: str) -> str:
    """Return the reason to skip a test without an extra, such as "semantic"."""
    return f"needs the {extra} extra: make {extra}"
