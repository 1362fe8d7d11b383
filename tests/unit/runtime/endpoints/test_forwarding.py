# SPDX-License-Identifier: Apache-2.0
"""The search for fast-path devices, on machines that cannot search."""

import pytest

from policyc.runtime.devices import links
from policyc.runtime.endpoints import pod_devices
from policyc.runtime.endpoints.forwarding import with_peers
from policyc.runtime.errors import HostError


def test_a_load_without_fast_path_asks_for_no_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_devices, "is_pair_to_elsewhere", None)
    assert with_peers([1], "stack") == frozenset()
    assert with_peers([], "redirect") == frozenset()


def test_a_device_other_than_a_veth_has_no_peer() -> None:
    assert with_peers([1], "redirect") == frozenset()


def test_a_device_that_is_gone_has_no_peer() -> None:
    assert with_peers([1 << 30], "redirect") == frozenset()


def test_a_kernel_error_is_reported_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> object:
        raise OSError(105, "No buffer space available")

    monkeypatch.setattr(links, "about", refuse)
    with pytest.raises(HostError, match="No buffer space") as refused:
        with_peers([1], "redirect")
    assert refused.value.hint == "load with --forwarding stack"
