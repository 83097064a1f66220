"""File access of the database's system account."""

import os
import pwd
import stat
from pathlib import Path

import pytest

from operations.postgres import server

# An account that is neither ours nor in our groups, wherever the tests run.
SOMEBODY = pwd.struct_passwd(("somebody", "x", 54_321, 54_321, "", "/", "/bin/false"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_closed_parent_directory_gets_only_the_search_bit(tmp_path: Path) -> None:
    closed, data = tmp_path / "closed", tmp_path / "closed/inner/data"
    data.mkdir(parents=True)
    for path in (data, data.parent, closed):
        path.chmod(0o700)

    server.allow_path(SOMEBODY, to=data)

    assert (mode(closed), mode(data.parent), mode(data)) == (0o701, 0o701, 0o700)


def test_searchable_directory_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "open/data").mkdir(parents=True)
    (tmp_path / "open").chmod(0o755)

    server.allow_path(SOMEBODY, to=tmp_path / "open/data")

    assert mode(tmp_path / "open") == 0o755


@pytest.mark.parametrize(
    ("uid", "gid", "after"),
    [(os.geteuid(), 54_321, 0o700), (54_321, os.getegid(), 0o610), (54_321, 54_321, 0o601)],
)
def test_search_bit_is_set_for_the_matching_class(
    uid: int, gid: int, after: int, tmp_path: Path
) -> None:
    account = pwd.struct_passwd(("somebody", "x", uid, gid, "", "/", "/bin/false"))
    directory = tmp_path / "closed"
    directory.mkdir()
    directory.chmod(0o600)

    server.allow_path(account, to=directory / "data")

    assert mode(directory) == after


def test_programs_installed_with_a_strict_umask_can_run(tmp_path: Path) -> None:
    binaries, share = tmp_path / "pginstall/bin", tmp_path / "pginstall/share"
    for directory in (binaries, share):
        directory.mkdir(parents=True)
    for path, given in ((binaries / "postgres", 0o700), (share / "words", 0o600)):
        path.touch()
        path.chmod(given)
    share.chmod(0o700)

    server.allow_programs(SOMEBODY, binaries=binaries)

    assert mode(binaries / "postgres") == 0o705
    assert mode(share) == 0o705
    assert mode(share / "words") == 0o604


def test_data_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.os, "geteuid", lambda: os.getuid() + 1)

    with pytest.raises(server.EmbeddedPostgresError, match="belongs to another user"):
        server.server_account(tmp_path)


def test_root_uses_the_owner_of_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.os, "geteuid", lambda: 0)
    owned = tmp_path.stat().st_uid

    account = server.server_account(tmp_path)

    assert account is not None
    # Data of root itself cannot be: the server refuses to run as root.
    assert account.pw_uid == owned if owned else account.pw_name == server.ACCOUNT
