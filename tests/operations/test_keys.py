"""The installation's secret is created once and is private."""

import stat
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from operations import key_file


def test_key_is_created_once_with_private_mode(tmp_path: Path) -> None:
    made = key_file.installation_key(tmp_path, embedded=True)

    assert len(made) >= 50
    assert key_file.installation_key(tmp_path, embedded=True) == made
    assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["keys.json"]


def test_installations_have_different_keys(tmp_path: Path) -> None:
    one = key_file.installation_key(tmp_path / "one", embedded=True)
    other = key_file.installation_key(tmp_path / "other", embedded=True)

    assert one != other


def test_key_file_without_secret_gets_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "keys.json").write_text('{"rotated": {}}')

    with pytest.raises(ImproperlyConfigured, match="PDPP_SECRET_KEY"):
        key_file.installation_key(tmp_path, embedded=True)


def test_database_url_requires_a_secret_key(tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match="PDPP_SECRET_KEY"):
        key_file.installation_key(tmp_path, embedded=False)

    assert not (tmp_path / "keys.json").exists()
