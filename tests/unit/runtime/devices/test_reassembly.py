# SPDX-License-Identifier: Apache-2.0
"""The error of a node that cannot reassemble fragments."""

from pathlib import Path

import pytest

from policyc.runtime.devices import own_device, reassembly
from policyc.runtime.errors import HostError
from policyc.runtime.undo import Undo


def test_the_hint_names_the_folder_that_must_allow_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(place: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(place))

    monkeypatch.setattr(reassembly, "_make_namespace", refuse)
    monkeypatch.setattr(reassembly, "remove", lambda place: None)
    monkeypatch.setattr(own_device, "find", lambda *_: None)
    with Undo() as undo, pytest.raises(HostError, match="network namespace") as caught:
        reassembly.make(tmp_path / "frag", undo)
    assert caught.value.hint is not None and f"{tmp_path} must allow mounts" in caught.value.hint
