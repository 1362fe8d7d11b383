# SPDX-License-Identifier: Apache-2.0
"""Common tools through two nodes: nginx, curl, iperf3, dig, ping, traceroute, with tcpdump.

Pods are routed or use the CNI's tunnel. Clients are forwarded by policyc's tunnel or answered
directly.
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from policyc.runtime.devices.uplinks import ReturnPath
from policyc.runtime.snat.snat import Masquerade
from tests.eventually import eventually
from tests.kernel.support.bundles import (
    compiled,
    policy_for_web,
)
from tests.kernel.support.external_wire import (
    NODE_PORT,
    services,
)
from tests.kernel.support.real_tools import Programs
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
)
from tests.kernel.support.two_nodes import (
    CLIENT1,
    NODES,
    UPLINK,
    TwoNodes,
    address,
    overlay_address,
)

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
networks = pytest.mark.parametrize("network", ["routed", "vxlan"])
BODY = "so much for that"
POLICY = policy_for_web("podSelector: {}", *CLIENT1)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pods reach pods, client1 reaches them, and client2 does not."""
    return compiled(tmp_path_factory.mktemp("tools"), POLICY)


@pytest.fixture
def programs(lab: TwoNodes, tmp_path: Path) -> Iterator[Programs]:
    with ExitStack() as owned:
        yield Programs(lab, tmp_path, owned)


def loaded(lab: TwoNodes, bundle: Path, network: str, return_path: ReturnPath = "tunnel") -> None:
    if network == "vxlan":
        lab.tunnel_pods()
    if return_path == "dsr":  # answers come from elsewhere than questions went
        lab.check_no_paths("router")
    masquerade = Masquerade(range(50000, 60001))
    for node in NODES:
        lab.load(node, bundle, services("pod-b"), return_path, masquerade=masquerade)


def nothing_amiss(lab: TwoNodes) -> None:
    assert lab.drops() == {}
    assert lab.bad_checksums() == 0


def said_in(log: Path) -> list[str]:
    """Clients of the web server, which writes a line when a page is gone."""
    return eventually(log.read_text, "the web server writes its line").split()


def url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def curl(programs: Programs, where: str, host: str, port: int) -> str:
    return programs.say(where, "curl", "-sS", "--max-time", "10", url(host, port))


@families
@networks
@pytest.mark.parametrize("return_path", ["tunnel", "dsr"])
def test_each_hop_of_a_node_port_connection_shows_the_expected_addresses(
    lab: TwoNodes, bundle: Path, programs: Programs,
    family: int, network: str, return_path: ReturnPath,
) -> None:  # fmt: skip
    """client1 requests a page of pod-b from node a. The test reads addresses on every wire."""
    loaded(lab, bundle, network, return_path)
    log = programs.web_server("pod-b", TARGET, BODY)
    client, node, pod = (address(name, family) for name in ("client1", "a", "pod-b"))
    filters = "tcp or udp port 8477"
    wires = {
        (where, device): programs.capture(where, device, filters)
        for where, device in (
            ("client1", UPLINK), ("router", "to-a"), ("router", "to-b"), ("b", "v-pod-b"),
            ("pod-b", "eth0"),
        )
    }  # fmt: skip
    assert curl(programs, "client1", node, NODE_PORT) == BODY
    seen = {wire: capture.seen() for wire, capture in wires.items()}
    asked, answered = (client, node), (node, client)
    assert seen["client1", UPLINK] == {asked, answered}
    at_pod = {(client, pod), (pod, client)}
    assert seen["pod-b", "eth0"] == seen["b", "v-pod-b"] == at_pod, "under its own address"
    handed = tuple(f"in {each}" for each in asked)
    back = tuple(f"in {each}" for each in (pod, client))
    if return_path == "dsr":
        assert seen["router", "to-a"] == {asked, handed}
        assert seen["router", "to-b"] == {handed, answered}
    else:
        assert seen["router", "to-a"] >= {asked, handed, answered}
        assert seen["router", "to-b"] == seen["router", "to-a"] - {asked, answered}
        assert handed in seen["router", "to-b"] and len(seen["router", "to-b"]) == 2, back
    assert said_in(log) == [client]
    nothing_amiss(lab)
    refused = programs.ended("client2", "curl", "-sS", "--max-time", "1", url(node, NODE_PORT))
    assert refused.returncode == 28, "in silence"
    assert lab.drops().keys() == {"b"} and lab.drops()["b"].keys() == {"policy"}
    assert said_in(log) == [client]


@pytest.mark.waits
@families
@networks
def test_http_dns_and_bulk_data_pass_a_service(
    lab: TwoNodes, bundle: Path, programs: Programs, family: int, network: str
) -> None:
    """From pod-a to the pod of the other node."""
    loaded(lab, bundle, network)
    vip = VIP.address(family)
    with ExitStack() as owned:
        web = Programs(lab, programs.folder, owned)
        log = web.web_server("pod-b", TARGET, BODY)
        assert curl(programs, "pod-a", vip, PORT) == BODY
        assert said_in(log) == [address("pod-a", family)]
    with ExitStack() as owned:
        names = Programs(lab, programs.folder, owned)
        answer = "192.0.2.53" if family == 4 else "2001:db8::53"
        names.name_server("pod-b", address("pod-b", family), TARGET, answer)
        kind = "A" if family == 4 else "AAAA"
        for way in ("+notcp", "+tcp"):
            asked = ["dig", f"@{vip}", "-p", str(PORT), way, "+short", "+tries=1", "web.shop", kind]
            assert programs.say("pod-a", *asked).strip() == answer
    asked = ["iperf3", "-c", vip, "-p", str(PORT), "-J"]
    for words in (("-n", "60M"), ("-n", "60M", "-R"), ("-u", "-b", "10M", "-n", "500K")):
        programs.iperf("pod-b", TARGET)
        said = json.loads(programs.say("pod-a", *asked, *words))
        assert "error" not in said, (words, said)
        found = said["end"]
        if "-u" in words:
            assert found["sum"]["packets"] > 100
        else:
            # At the end iperf3 does not count what is in buffers, which is less than half of 60 MB.
            assert found["sum_received"]["bytes"] == pytest.approx(
                found["sum_sent"]["bytes"], rel=0.5
            )
    nothing_amiss(lab)


@pytest.mark.waits
@families
@networks
def test_ping_of_every_size_and_traceroute_work(
    lab: TwoNodes, bundle: Path, programs: Programs, family: int, network: str
) -> None:
    loaded(lab, bundle, network)
    pod, client = address("pod-b", family), address("client1", family)
    ping = ["ping", "-n", "-c", "3", "-i", "0.01", "-W", "2"]
    largest = (1450 if network == "vxlan" else 1500) - (28 if family == 4 else 48)
    for size, to in ((56, pod), (56, client), (largest, pod), (4000, pod)):
        said = programs.say("pod-a", *ping, "-s", str(size), to)
        assert " 3 received" in said, said
    over = programs.ended("pod-a", *ping, "-M", "do", "-s", str(largest + 1), pod)
    assert over.returncode != 0 and "too long" in over.stderr + over.stdout
    trace = ["traceroute", f"-{family}", "-n", "-q", "1", "-w", "2", "-m", "8"]
    router = address("a", family)[:-1] + "1"
    own = overlay_address("a", 6) if (network, family) == ("vxlan", 6) else address("a", family)
    there = [overlay_address("b", family)] if network == "vxlan" else [router, address("b", family)]
    assert traced(programs.say("pod-a", *trace, pod)) == [own, *there, pod]
    for way in ((), ("-I",)):
        out = traced(programs.say("pod-a", *trace, *way, client))
        assert out == [own, router, client], "behind masquerade, too"
    nothing_amiss(lab)


def traced(said: str) -> list[str]:
    return re.findall(r"^ *\d+ +(\S+)", said, flags=re.MULTILINE)
