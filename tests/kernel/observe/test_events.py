# SPDX-License-Identifier: Apache-2.0
"""`log` and `audit`: the events of packets, the bound on their number, and the reader."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.per_cpu import per_cpu_sums
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.lab.children import call
from policyc.runtime.lab.topology import Lab, LabEndpoint, LabNode
from policyc.runtime.load.node import (
    load,
    unload,
)
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.observe.event_records import (
    EndSaid,
    Event,
    RuleSaid,
)
from policyc.runtime.observe.events import (
    Lost,
    read_events,
)
from policyc.runtime.observe.status import (
    NodeStatus,
    status,
)
from tests.kernel.support import packets
from tests.kernel.support.answers import (
    DROP,
    NEXT,
    REDIRECT,
    run_frame,
)
from tests.kernel.support.bundles import compiled
from tests.kernel.support.packets import (
    ACK,
    SYN,
    Host,
    Payload,
)
from tests.kernel.support.service_yaml import (
    VIP,
    service,
    slices,
)

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]

POLICY = """\
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {name: web}
spec:
  tier: 500
  appliesTo: pod.app == "web"
  rules: |
    ingress:
      log tcp/80-81 from any
      audit tcp/81-82 from any
      allow tcp/80 from any
      deny tcp/81-82 from any
      reject tcp/22 from any log
      allow tcp/83 from any limit 1/s burst 2 log
      allow icmp echo-request from any log
      allow icmpv6 echo-request from any log
      allow udp from any
    egress:
      log tcp/8080 to any
      pass tcp to any log
      allow any
---
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: cart}
spec:
  order: 1
  selector: app == "cart"
  types: [Egress]
  egress:
  - {action: Log, protocol: TCP, destination: {ports: [8081]}}
  - {action: Allow}
"""
SILENT = """\
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {name: quiet}
spec:
  tier: 500
  appliesTo: all
  rules: |
    ingress:
      allow any
"""
PODS = {
    name: LabEndpoint("shop", name, IPv4Address(f"10.244.1.{n}"), IPv6Address(f"fd00:1::{n}"))
    for n, name in enumerate(("web", "cart"), 11)
}
OWN, CALICO = "ExtendedPolicy.policyc.dev", "GlobalNetworkPolicy.projectcalico.org"
OUTSIDE = Host("02:00:00:00:00:ee", "198.51.100.7", "2001:db8::7")
FAMILIES = (4, 6)
SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "node-event-v1.schema.json"
ROOM = 262144 // (88 + 8)
"""Events that nobody has read, each with its header."""
AT_ONCE = {"external clients": 500, "a pod": 250}
"""Events that such an owner may write without a pause, and in each second."""


@dataclass
class Noting:
    """A lab whose node can be given the policies again, which empties the ring."""

    lab: Lab
    folder: Path

    @property
    def node(self) -> LabNode:
        return self.lab.node

    def load(self, bundle: str = "bundle", services: tuple[JsonValue, ...] = ()) -> None:
        folder, node = self.folder, self.node
        node.run_in(
            lambda: (
                load(
                    LoadRequest(
                        bundle=folder / bundle,
                        endpoints=folder / "endpoints.json",
                        bpffs=node.bpffs,
                        services=services,
                    )
                )
                and None
            )
        )

    def host(self, name: str) -> Host:
        pod = next(pod for pod in self.node.pods if pod.endpoint.name == name)
        return Host(pod.mac, str(pod.endpoint.ipv4), str(pod.endpoint.ipv6))

    def verdicts(self, frames: list[bytes], hook: str = "pc_to_pod", pod: str = "web") -> list[int]:
        device = next(each.interface for each in self.node.pods if each.endpoint.name == pod)

        def work() -> list[int]:
            at = socket.if_nametoindex(device)
            came_in = at if hook == "pc_from_pod" else socket.if_nametoindex(self.node.uplink)
            with bpf_syscall.obj_get(Pins(self.node.bpffs).hook(hook)) as fd:
                return [run_frame(fd, frame, at, came_in).verdict for frame in frames]

        return self.node.run_in(work)

    def read(self, **options: Any) -> list[Event | Lost]:
        given = {"seconds": 0, "bpffs": self.node.bpffs} | options
        return self.node.run_in(lambda: list(read_events(**given)))

    def events(self) -> list[Event]:
        found = self.read()
        assert all(isinstance(each, Event) for each in found)
        return [each for each in found if isinstance(each, Event)]

    def status(self) -> NodeStatus:
        found = self.node.run_in(lambda: status(bpffs=self.node.bpffs))
        assert found is not None
        return found

    def counts(self) -> tuple[int, int, int]:
        """Written, withheld, lost."""
        epoch = self.status().epoch

        def ask() -> tuple[int, ...]:
            pin = Pins(self.node.bpffs).generation(epoch) / "pc_event_count"
            ((_due, *counts),) = per_cpu_sums(pin)
            return tuple(counts)

        written, withheld, lost = self.node.run_in(ask)
        return written, withheld, lost

    def command(self, *options: str) -> "subprocess.Popen[str]":
        """`policyc node events` in the node's namespace."""
        inside = ["nsenter", f"--net={self.node.namespace}"]
        given = [sys.executable, "-m", "policyc.compiler.cli", "node", "events"]
        return subprocess.Popen(
            [*inside, *given, "--bpffs", str(self.node.bpffs), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self, text: str) -> int:
        """The line of the policies' file that has this text."""
        lines = (self.folder / "bundle.yaml").read_text().splitlines()
        return 1 + next(at for at, line in enumerate(lines) if text in line)

    def rule(self, action: str, text: str, policy: str = f"{OWN} web") -> tuple[str, str]:
        """Action and place of a rule, as events say them."""
        return action, f"{policy} {self.folder / 'bundle.yaml'}:{self.line(text)}"


@pytest.fixture(scope="module", params=["c", pytest.param("llvm", marks=pytest.mark.slow)])
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Noting]:
    folder = tmp_path_factory.mktemp("events")
    for name, text in (("bundle", POLICY), ("silent", SILENT)):
        compiled(folder, text, "--backend", request.param, name=name)
    with Lab(tuple(PODS.values())) as built:
        records = {pod.key: {"labels": {"app": pod.name}} for pod in PODS.values()}
        built.node.write_endpoints(folder / "endpoints.json", records)
        yield Noting(built, folder)
        built.node.run_in(lambda: unload(bpffs=built.node.bpffs) and None)


@pytest.fixture
def noting(lab: Noting) -> Noting:
    lab.load()
    return lab


def said(end: EndSaid | None) -> list[tuple[str, str]] | None:
    """The rule that decided, and those that made notes."""
    if end is None:
        return None
    return [(rule.action, rule.where) for rule in (end.decided, *end.notes)]


def syns(source: Host, target: Host, port: int, sports: range, family: int = 4) -> list[bytes]:
    return [
        packets.frame(source, target, packets.tcp(sport, port, SYN), family=family)
        for sport in sports
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_event_holds_every_field_of_a_first_packet(noting: Noting, family: int) -> None:
    web = noting.host("web")
    before = time.time()
    assert noting.verdicts(syns(OUTSIDE, web, 80, range(4000, 4001), family)) == [NEXT]
    (event,) = noting.events()
    shown = asdict(event)
    at = time.strptime(shown.pop("time")[:19], "%Y-%m-%dT%H:%M:%S")
    assert int(before) - 1 <= time.mktime(at) - time.timezone <= time.time() + 1
    ingress = shown.pop("ingress")
    assert shown == {
        "epoch": noting.status().epoch,
        "verdict": "allowed",
        "reason": "",
        "protocol": "TCP",
        "source": "",
        "source_address": OUTSIDE.address(family),
        "source_port": 4000,
        "destination": "shop/web",
        "destination_address": web.address(family),
        "destination_port": 80,
        "icmp_type": None,
        "icmp_code": None,
        "service_address": None,
        "service_port": None,
        "again": False,
        "by_reply": False,
        "egress": None,
    }
    assert said(event.ingress) == [
        noting.rule("allow", "allow tcp/80 "),
        noting.rule("log", "log tcp/80-81 "),
    ]
    assert ingress["decided"]["path"] == "spec.rules.ingress[2]"


@pytest.mark.parametrize("family", FAMILIES)
def test_established_connections_and_rules_without_log_make_no_event(
    noting: Noting, family: int
) -> None:
    web = noting.host("web")
    sports = range(4100, 4103)
    assert noting.verdicts(syns(OUTSIDE, web, 80, sports, family)) == [NEXT] * 3
    assert len(noting.events()) == 3
    accepted = [packets.tcp(80, sport, SYN | ACK) for sport in sports]
    answers = [packets.frame(web, OUTSIDE, each, family=family) for each in accepted]
    assert noting.verdicts(answers, "pc_from_pod") == [NEXT] * 3
    later = [packets.tcp(sport, 80, ACK) for sport in sports] * 5
    frames = [packets.frame(OUTSIDE, web, each, family=family) for each in later]
    quiet = packets.frame(OUTSIDE, web, packets.udp(9, 53), family=family)
    denied = syns(OUTSIDE, web, 82, range(4100, 4101), family)
    assert noting.verdicts([*frames, quiet, *denied]) == [NEXT] * 16 + [DROP]
    assert noting.events() == []


def test_every_action_is_reported_with_its_reason(noting: Noting) -> None:
    web = noting.host("web")
    ports = [(81, DROP), (22, REDIRECT), (83, NEXT), (83, NEXT), (83, DROP)]
    for sport, (port, verdict) in enumerate(ports, 5000):
        assert noting.verdicts(syns(OUTSIDE, web, port, range(sport, sport + 1))) == [verdict]
    assert [(e.destination_port, e.source_port, e.verdict, e.reason) for e in noting.events()] == [
        (81, 5000, "denied", "policy"),
        (22, 5001, "denied", "policy"),
        (83, 5002, "allowed", ""),
        (83, 5003, "allowed", ""),
        (83, 5004, "denied", "limit"),
    ]


@pytest.mark.parametrize(("family", "echo", "protocol"), [(4, 8, "ICMP"), (6, 128, "ICMPv6")])
def test_an_echo_has_a_type_and_no_ports(
    noting: Noting, family: int, echo: int, protocol: str
) -> None:
    asked: Payload = packets.icmp(8, 0, 7) if family == 4 else packets.icmp6(128, 0, 7)
    frame = packets.frame(OUTSIDE, noting.host("web"), asked, family=family)
    assert noting.verdicts([frame]) == [NEXT]
    (event,) = noting.events()
    found = (event.protocol, event.icmp_type, event.icmp_code)
    assert found == (protocol, echo, 0)
    assert event.source_port is event.destination_port is None


@pytest.mark.parametrize("family", FAMILIES)
def test_one_event_holds_both_ends_and_notes_in_order(noting: Noting, family: int) -> None:
    web, cart = noting.host("web"), noting.host("cart")
    assert noting.verdicts(syns(web, cart, 8080, range(6000, 6001), family), "pc_from_pod") == [
        NEXT
    ]
    (event,) = noting.events()
    assert (event.source, event.destination) == ("shop/web", "shop/cart")
    assert said(event.egress) == [
        ("allow", "default-allow"),
        noting.rule("log", "log tcp/8080 "),
        noting.rule("pass", "pass tcp "),
    ]
    assert said(event.ingress) == [("allow", "default-allow")]
    (frame,) = syns(cart, web, 80, range(6001, 6002), family)
    assert noting.verdicts([frame], "pc_from_pod", "cart") == [NEXT]
    (event,) = noting.events()
    assert said(event.egress) == [noting.rule("allow", "{action: Allow}", f"{CALICO} cart")]
    assert event.ingress is not None and event.ingress.notes


def test_a_log_rule_of_calico_continues_with_the_next_rule(noting: Noting) -> None:
    cart = noting.host("cart")
    ports = (8081, 8082)
    frames = [packets.frame(cart, OUTSIDE, packets.tcp(7000, port, SYN)) for port in ports]
    assert noting.verdicts(frames, "pc_from_pod", "cart") == [NEXT, NEXT]
    (event,) = noting.events()
    assert (event.destination_port, event.verdict) == (8081, "allowed")
    assert said(event.egress) == [
        noting.rule("allow", "{action: Allow}", f"{CALICO} cart"),
        noting.rule("log", "action: Log", f"{CALICO} cart"),
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_event_of_a_translated_packet_names_the_service_and_the_endpoint(
    noting: Noting, family: int
) -> None:
    web, cart = noting.host("web"), noting.host("cart")
    noting.load(services=(service(), *slices([cart])))
    frames = syns(web, VIP, 80, range(6100, 6101), family)
    assert noting.verdicts(frames, "pc_from_pod") == [NEXT]
    (event,) = noting.events()
    assert (event.destination, event.destination_address, event.destination_port) == (
        "shop/cart",
        cart.address(family),
        8080,
    )
    assert (event.service_address, event.service_port) == (VIP.address(family), 80)
    noting.load()


def test_a_connection_decided_again_after_a_load_makes_another_event(noting: Noting) -> None:
    web = noting.host("web")
    assert noting.verdicts(syns(OUTSIDE, web, 80, range(4200, 4201))) == [NEXT]
    assert [event.again for event in noting.events()] == [False]
    noting.load()
    answer = packets.frame(web, OUTSIDE, packets.tcp(80, 4200, SYN | ACK))
    assert noting.verdicts([answer], "pc_from_pod") == [NEXT]
    (event,) = noting.events()
    assert event.again and event.by_reply
    ends = event.source_address, event.source_port, event.destination, event.destination_port
    assert ends == (OUTSIDE.ip4, 4200, "shop/web", 80)


def test_rules_that_make_notes_count_their_packets(noting: Noting) -> None:
    web = noting.host("web")
    for port, n in ((80, 2), (81, 3), (82, 4)):
        noting.verdicts(syns(OUTSIDE, web, port, range(100, 100 + n)))
    found = {(count.action, count.where): count.packets for count in noting.status().rules}
    assert found == {
        noting.rule("log", "log tcp/80-81 "): 5,
        noting.rule("audit", "audit tcp/81-82 "): 7,
        noting.rule("allow", "allow tcp/80 "): 2,
        noting.rule("deny", "deny tcp/81-82 "): 7,
    }


def flood(noting: Noting, sender: str, n: int = 3000) -> None:
    """First packets of an external client, or of pod cart, that a rule of web denies and logs."""
    web, ports = noting.host("web"), range(1000, 1000 + n)
    if sender == "a pod":
        frames = syns(noting.host("cart"), web, 81, ports)
        assert noting.verdicts(frames, "pc_from_pod", "cart") == [DROP] * n
    else:
        assert noting.verdicts(syns(OUTSIDE, web, 81, ports)) == [DROP] * n


def refused(noting: Noting, sender: str) -> int:
    """Events of the sender that `node status` says were not written."""
    title = "shop/cart" if sender == "a pod" else sender
    found = {(each.endpoint, each.what): each.times for each in noting.status().refused}
    return found.get((title, "event not written"), 0)


@pytest.mark.parametrize("sender", AT_ONCE)
def test_a_flood_gets_a_bounded_share_of_events_and_the_rest_is_counted(
    noting: Noting, sender: str
) -> None:
    before = refused(noting, sender)
    started = time.monotonic()
    flood(noting, sender)
    lasted = time.monotonic() - started
    written, withheld, lost = noting.counts()
    assert written + withheld == 3000 and lost == 0
    share = AT_ONCE[sender]
    assert share <= written <= share * (1 + lasted) + 1
    found = noting.read()
    assert sum(isinstance(each, Event) for each in found) == written
    assert [each for each in found if isinstance(each, Lost)] == (
        [Lost(withheld, 0)] if withheld else []
    )
    assert refused(noting, sender) - before == withheld


@pytest.mark.parametrize("sender", AT_ONCE)
def test_a_flood_of_one_source_takes_no_event_of_another_source(
    noting: Noting, sender: str
) -> None:
    flood(noting, sender)
    written, _, _ = noting.counts()
    flood(noting, next(each for each in AT_ONCE if each != sender), 1)
    assert noting.counts()[0] == written + 1


def test_a_flood_of_a_pod_takes_no_event_of_another_pod(noting: Noting) -> None:
    flood(noting, "a pod")
    before = noting.counts()
    frames = syns(noting.host("web"), noting.host("cart"), 8080, range(5000, 5001))
    assert noting.verdicts(frames, "pc_from_pod", "web") == [NEXT]
    written, withheld, lost = noting.counts()
    assert (written - before[0], withheld, lost) == (1, before[1], 0)


def test_without_a_reader_packets_pass_and_lost_events_are_counted(
    noting: Noting,
) -> None:
    web, sport = noting.host("web"), 1000
    until = time.monotonic() + 60
    while not noting.counts()[2]:
        assert time.monotonic() < until, "the ring is never full"
        assert noting.verdicts(syns(OUTSIDE, web, 80, range(sport, sport + 500))) == [NEXT] * 500
        sport += 500
        time.sleep(0.5)
    written, withheld, lost = noting.counts()
    assert written == ROOM
    found = noting.read()
    assert [each for each in found if isinstance(each, Lost)] == [Lost(withheld, lost)]
    check([Lost(withheld, lost).to_json()])
    assert sum(isinstance(each, Event) for each in found) == ROOM
    time.sleep(0.1)
    assert noting.verdicts(syns(OUTSIDE, web, 80, range(999, 1000))) == [NEXT]
    assert sum(isinstance(each, Event) for each in noting.read()) == 1


def connect(noting: Noting, port: int, n: int = 1) -> None:
    """TCP to web from outside, on the wire."""
    address = noting.host("web").ip4

    def work() -> None:
        for _ in range(n):
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as each:
                each.setblocking(False)
                each.connect_ex((address, port))
                time.sleep(0.02)

    call(work, namespace=noting.lab.ends["external"].namespace)


def test_the_command_prints_events_of_packets_on_the_wire(noting: Noting) -> None:
    reader = noting.command("--format", "json", "--count", "2")
    connect(noting, 80)
    connect(noting, 81)
    out, err = reader.communicate(timeout=60)
    assert (reader.returncode, err) == (0, "")
    found = [json.loads(line) for line in out.splitlines()]
    check(found)
    assert [(e["kind"], e["verdict"], e["destination_port"]) for e in found] == [
        ("connection", "allowed", 80),
        ("connection", "denied", 81),
    ]


def check(lines: list[Any]) -> None:
    """Against the schema."""
    schema = json.loads(SCHEMA.read_text())
    for line in lines:
        jsonschema.Draft202012Validator(schema).validate(line)


def test_a_line_of_the_output_is_readable_text(noting: Noting) -> None:
    noting.verdicts(syns(OUTSIDE, noting.host("web"), 81, range(4000, 4001), 6))
    reader = noting.command("--count", "1")
    out, err = reader.communicate(timeout=60)
    assert (reader.returncode, err) == (0, "")
    file = noting.folder / "bundle.yaml"
    places = [f"{file}:{noting.line(text)}" for text in ("deny tcp/81", "log tcp/80", "audit tcp")]
    pattern = (
        r"\S+Z denied \(policy\) TCP \[2001:db8::7\]:4000 to shop/web \[fd00:1::11\]:81; "
        r"ingress: deny by {} web {} \S+, log by {} web {} \S+, audit by {} web {} \S+\n"
    ).format(*(re.escape(part) for place in places for part in (OWN, place)))
    assert re.fullmatch(pattern, out), out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_without_a_lost_event(noting: Noting, number: int) -> None:
    reader = noting.command("--format", "json")
    assert reader.stdout is not None
    connect(noting, 80)
    first = json.loads(reader.stdout.readline())
    assert first["destination_port"] == 80
    reader.send_signal(number)
    out, err = reader.communicate(timeout=60)
    assert (reader.returncode, out, err) == (0, "", "")


def test_a_second_concurrent_reader_is_refused(noting: Noting) -> None:
    reader = noting.command("--seconds", "20", "--format", "json")
    assert reader.stdout is not None
    connect(noting, 80)
    assert reader.stdout.readline()
    second = noting.command("--count", "1")
    out, err = second.communicate(timeout=60)
    assert second.returncode == 3 and "is reading here" in err and out == ""
    reader.send_signal(signal.SIGTERM)
    reader.communicate(timeout=60)
    assert reader.returncode == 0


def test_a_reader_follows_the_next_load_and_ends_with_the_unload(noting: Noting) -> None:
    reader = noting.command("--format", "json")
    assert reader.stdout is not None
    connect(noting, 80)
    epochs = [json.loads(reader.stdout.readline())["epoch"]]
    noting.load("silent")
    connect(noting, 80)
    noting.load()
    connect(noting, 81)
    epochs.append(json.loads(reader.stdout.readline())["epoch"])
    assert epochs[1] == epochs[0] + 2
    noting.node.run_in(lambda: unload(bpffs=noting.node.bpffs) and None)
    out, err = reader.communicate(timeout=60)
    assert (reader.returncode, out, err) == (0, "", "")


def test_the_command_reports_that_nothing_is_loaded(noting: Noting) -> None:
    noting.node.run_in(lambda: unload(bpffs=noting.node.bpffs) and None)
    reader = noting.command()
    out, err = reader.communicate(timeout=60)
    assert reader.returncode == 3 and "nothing is loaded" in err and out == ""


def test_the_command_reports_that_no_rule_logs(noting: Noting) -> None:
    noting.load("silent")
    assert not {"pc_events", "pc_event_count", "pc_effects"} & {
        each.name for each in noting.status().maps
    }
    reader = noting.command("--seconds", "0.1")
    out, err = reader.communicate(timeout=60)
    assert (reader.returncode, out) == (0, "") and "no loaded rule logs or audits" in err


def test_a_rule_in_json_is_plain_values() -> None:
    rule = RuleSaid(3, "log", "ExtendedPolicy web p.yaml:9", "spec.rules[0]")
    assert asdict(EndSaid(rule, (rule,)))["notes"] == (asdict(rule),)
