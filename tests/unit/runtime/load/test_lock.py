# SPDX-License-Identifier: Apache-2.0
"""The lock of a node: one command at a time, whatever the others create and remove meanwhile."""

import fcntl
from pathlib import Path
from typing import IO

import pytest

from policyc.runtime.errors import HostError
from policyc.runtime.state import StateDir


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command ends, and removes the file, after this one opened it."""
    flock = fcntl.flock

    def late(file: IO[str], how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        with StateDir(Path("/x"), tmp_path).lock():
            pass
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with (
        StateDir(Path("/x"), tmp_path).lock(),
        pytest.raises(HostError, match="another `policyc node`"),
        StateDir(Path("/x"), tmp_path).lock(),
    ):
        pass


def test_a_lock_is_held_until_all_is_cleared(tmp_path: Path) -> None:
    state = StateDir(Path("/x"), tmp_path)
    with state.lock():
        state.set_network("1:2")
        state.clear()
        with pytest.raises(HostError, match="another `policyc node`"), state.lock():
            pass
    assert not state.path.exists()


def test_a_link_to_a_bpffs_has_its_lock(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert StateDir(tmp_path / "link").path == StateDir(tmp_path / "real").path
