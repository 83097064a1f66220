"""The installation's secret is made once, is private, and is never built in."""

import stat
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from operations import key_file


def test_the_first_start_makes_a_private_key_and_later_ones_reuse_it(tmp_path: Path) -> None:
    made = key_file.installation_key(tmp_path, embedded=True)

    assert len(made) >= 50
    assert key_file.installation_key(tmp_path, embedded=True) == made
    assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["keys.json"]


def test_two_installations_do_not_share_a_key(tmp_path: Path) -> None:
    one = key_file.installation_key(tmp_path / "one", embedded=True)
    other = key_file.installation_key(tmp_path / "other", embedded=True)

    assert one != other


def test_keys_that_were_rotated_beside_a_secret_elsewhere_do_not_get_another(
    tmp_path: Path,
) -> None:
    (tmp_path / "keys.json").write_text('{"rotated": {}}')

    with pytest.raises(ImproperlyConfigured, match="PDPP_SECRET_KEY"):
        key_file.installation_key(tmp_path, embedded=True)


def test_whoever_brings_a_database_must_bring_the_key(tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match="PDPP_SECRET_KEY"):
        key_file.installation_key(tmp_path, embedded=False)

    assert not (tmp_path / "keys.json").exists()
