# SPDX-License-Identifier: Apache-2.0
"""The ranges of --service-cidr: what they may be, and from which address the node sends there."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from policyc.runtime.endpoints.endpoints import (
    EndpointsFile,
    read_endpoints,
)
from policyc.runtime.errors import InputError
from policyc.runtime.services.route import read

OWN = ("192.0.2.1", "2001:db8::1", "192.0.2.9")


@pytest.fixture
def file(tmp_path: Path) -> EndpointsFile:
    """A pod of this node alone, and two nodes."""
    return made(tmp_path, {"one": OWN, "two": ("192.0.2.2",)})


def made(folder: Path, nodes: dict[str, Sequence[str]]) -> EndpointsFile:
    pod = {"namespace": "shop", "name": "web", "labels": {}, "node": "one", "interface": "v0",
           "mac": "02:00:00:00:00:0a", "addresses": ["10.0.0.10"]}  # fmt: skip
    known = [{"name": name, "addresses": list(at)} for name, at in nodes.items()]
    about = {"schema": "policyc.dev/endpoints/v1", "node": "one", "endpoints": [pod]}
    path = folder / "endpoints.json"
    path.write_text(json.dumps({**about, "nodes": known}))
    return read_endpoints(path)


def test_each_family_is_sent_from_the_nodes_first_address(file: EndpointsFile) -> None:
    found = read(
        ["10.96.0.0/12", "fd96::/112", "10.96.0.0/12"], file, ["up0"], has_host_policy=False
    )
    assert [(str(each.to), str(each.source)) for each in found] == [
        ("10.96.0.0/12", "192.0.2.1"),
        ("fd96::/112", "2001:db8::1"),
    ]


def test_without_the_option_there_are_no_routes(file: EndpointsFile) -> None:
    assert read([], file, [], has_host_policy=True) == ()


@pytest.mark.parametrize(
    ("cidr", "why"),
    [
        ("10.96.0.1/12", "has host bits set"),
        ("services", "does not appear to be"),
        ("0.0.0.0/0", "this range cannot hold Services"),
        ("127.0.0.0/8", "this range cannot hold Services"),
        ("169.254.0.0/16", "this range cannot hold Services"),
        ("ff00::/8", "this range cannot hold Services"),
        ("10.0.0.0/8", "the pod shop/web has the address 10.0.0.10"),
        ("192.0.2.0/24", "the node one has the address 192.0.2.1"),
        ("192.0.2.2/32", "the node two has the address"),
    ],
)
def test_an_invalid_service_range_is_refused(file: EndpointsFile, cidr: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        read([cidr], file, ["up0"], has_host_policy=False)
    assert f"--service-cidr {cidr}" in str(caught.value) and caught.value.hint


def test_a_family_without_an_address_of_the_node_is_refused(tmp_path: Path) -> None:
    alone = made(tmp_path, {"one": ("192.0.2.1",)})
    assert read(["10.96.0.0/12"], alone, [], has_host_policy=False)
    with pytest.raises(InputError, match="no IPv6 address of this node"):
        read(["fd96::/112"], alone, [], has_host_policy=False)


def test_other_nodes_need_an_uplink(file: EndpointsFile) -> None:
    with pytest.raises(InputError, match="need an --uplink"):
        read(["10.96.0.0/12"], file, [], has_host_policy=False)


def test_service_routes_of_a_node_under_host_policy_are_an_error(file: EndpointsFile) -> None:
    with pytest.raises(InputError, match="this node is under host policy"):
        read(["10.96.0.0/12"], file, ["up0"], has_host_policy=True)
