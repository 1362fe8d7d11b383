# SPDX-License-Identifier: Apache-2.0
"""How often a load asks the kernel for programs of other software."""

import socket
from pathlib import Path

import pytest

from policyc.runtime.attach import other_programs
from policyc.runtime.attach.other_programs import OtherPrograms
from policyc.runtime.kernel.pins import Pins

_GET_CHAINS = 0xA04  # NFNL_SUBSYS_NFTABLES, NFT_MSG_GETCHAIN


def test_chains_of_nftables_are_listed_once_for_pods_and_uplinks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listed = []

    def dumped(_netlink: socket.socket, kind: int, _body: bytes) -> list[bytes]:
        listed.append(kind)
        return []

    monkeypatch.setattr(other_programs, "dumped", dumped)
    others = OtherPrograms(Pins(tmp_path))
    assert (others.at([]), others.at([])) == ("", "")
    assert listed.count(_GET_CHAINS) == 1
