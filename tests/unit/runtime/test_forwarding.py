# SPDX-License-Identifier: Apache-2.0
"""Asking for devices that packets can be handed to, on machines that cannot ask."""

import sys

import pytest

from policyc.runtime import forwarding, rtnetlink
from policyc.runtime.errors import HostError
from policyc.runtime.forwarding import with_peers


@pytest.fixture
def without_pyroute2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyroute2", None)
    rtnetlink._netlink.cache_clear()


@pytest.mark.usefixtures("without_pyroute2")
def test_without_the_package_the_other_way_is_named() -> None:
    with pytest.raises(HostError, match="handing packets over needs the Python package") as refused:
        with_peers([1], "redirect")
    assert refused.value.hint == ("pip install 'policyc[node]', or load with --forwarding stack")


@pytest.mark.usefixtures("without_pyroute2")
def test_who_does_not_hand_over_does_not_ask() -> None:
    assert with_peers([1], "stack") == frozenset()
    assert with_peers([], "redirect") == frozenset()


def test_what_is_no_veth_has_no_peer() -> None:
    assert with_peers([1], "redirect") == frozenset()


def test_a_device_that_is_gone_has_no_peer() -> None:
    assert with_peers([1 << 30], "redirect") == frozenset()


def test_what_the_kernel_refuses_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_link: object) -> bool:
        raise OSError(105, "No buffer space available")

    monkeypatch.setattr(forwarding, "_is_veth_to_elsewhere", refuse)
    with pytest.raises(HostError, match="No buffer space") as refused:
        with_peers([1], "redirect")
    assert refused.value.hint == "load with --forwarding stack"
