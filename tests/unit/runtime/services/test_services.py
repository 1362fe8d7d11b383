# SPDX-License-Identifier: Apache-2.0
"""Services and EndpointSlices become frontends and backends, with entries that keep their place."""

import ipaddress
import struct
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.errors import InputError
from policyc.runtime.kernel.btf import Btf
from policyc.runtime.maps import services
from policyc.runtime.maps.services import (
    LOCAL,
    NO_NEW,
    BackendFormat,
    Capacities,
    FrontendFormat,
)
from policyc.runtime.services.all_objects import read_services
from policyc.runtime.services.services import (
    Backend,
    Frontend,
    Kind,
    OwnNode,
)
from policyc.runtime.services.source_ranges import Lists
from policyc.runtime.services.wanted_tables import Planner, Wanted
from policyc.runtime.state import Warn, unheard

HOOKS = Btf.of_object(
    Path(str(resources.files("policyc.backends.llvm") / "prebuilt" / "hooks.bpf.o"))
)
FRONTENDS, BACKENDS = FrontendFormat.of(HOOKS), BackendFormat.of(HOOKS)
READY, NOT_READY = {"ready": True}, {"ready": False}
DRAINING = {"ready": False, "serving": True, "terminating": True}


def value(raw: object) -> JsonValue:
    return JsonValue(raw, Path("services.json"))


def service(**spec: Any) -> dict[str, Any]:
    found = {"clusterIPs": ["10.96.0.1"], "ports": [{"port": 80, "targetPort": "web"}]} | spec
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": found,
    }


def endpoints(
    *found: tuple[str, dict[str, Any]], family: int = 4, name: str = "web-1", **fields: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": "shop",
            "name": name,
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": f"IPv{family}",
        "ports": [{"name": "", "port": 8080}],
        "endpoints": [{"addresses": [a], "conditions": c} for a, c in found],
    } | fields


ADDRESSES = tuple(map(ipaddress.ip_address, ("192.0.2.7", "2001:db8::7")))
NODE = OwnNode("node-1", ADDRESSES)


def read(
    *objects: dict[str, Any], node: OwnNode = NODE, note: Warn = unheard
) -> tuple[Frontend, ...]:
    return read_services([value(each) for each in objects], node, None, note)


def shown(frontend: Frontend) -> list[tuple[str, int, bool]]:
    return [(str(b.address), b.port, b.takes_new) for b in frontend.backends]


def test_a_service_is_read_with_its_endpoints() -> None:
    (found,) = read(service(), endpoints(("10.0.0.2", READY), ("10.0.0.1", {})))
    assert (found.service, str(found.address), found.protocol, found.port) == (
        "shop/web",
        "10.96.0.1",
        "TCP",
        80,
    )
    assert shown(found) == [("10.0.0.1", 8080, True), ("10.0.0.2", 8080, True)]


@pytest.mark.parametrize(
    ("conditions", "takes_new"),
    [
        ([READY, NOT_READY], [True, False]),
        ([READY, DRAINING], [True, False]),
        ([NOT_READY, DRAINING], [False, True]),
        ([DRAINING, DRAINING], [True, True]),
        ([NOT_READY, DRAINING | {"serving": False}], [False, False]),
        ([NOT_READY, {"ready": False, "serving": True}], [False, False]),
        ([{"ready": None}, NOT_READY], [True, False]),
    ],
    ids=str,
)
def test_readiness_selects_the_endpoints_for_new_connections(
    conditions: list[dict[str, Any]], takes_new: list[bool]
) -> None:
    (found,) = read(service(), endpoints(*zip(("10.0.0.1", "10.0.0.2"), conditions, strict=True)))
    assert [each.takes_new for each in found.backends] == takes_new
    assert [each.serves for each in found.backends] == [
        c.get("ready", True) is not False or (c == DRAINING) for c in conditions
    ]


def test_every_address_and_port_of_a_service() -> None:
    ports = [
        {"name": "web", "port": 80, "targetPort": 8080},
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"},
    ]
    spec = {"clusterIPs": ["10.96.0.1", "fd96::1"], "ports": ports, "externalIPs": ["192.0.2.1"]}
    balanced = service(**spec) | {
        "status": {
            "loadBalancer": {
                "ingress": [
                    {"ip": "198.51.100.1"},
                    {"ip": "198.51.100.2", "ipMode": "Proxy"},
                    {"hostname": "lb.example"},
                ]
            }
        }
    }
    numbers = [
        {"name": "dns", "protocol": "UDP", "port": 5353},
        {"name": "web", "protocol": "TCP", "port": 8080},
    ]
    found = read(
        balanced,
        endpoints(("10.0.0.1", READY), ports=numbers),
        endpoints(("fd00::1", READY), family=6, name="web-2", ports=numbers),
    )
    assert {(str(f.address), f.port, f.protocol): shown(f)[0][:2] for f in found} == {
        ("10.96.0.1", 80, "TCP"): ("10.0.0.1", 8080),
        ("10.96.0.1", 53, "UDP"): ("10.0.0.1", 5353),
        ("192.0.2.1", 80, "TCP"): ("10.0.0.1", 8080),
        ("192.0.2.1", 53, "UDP"): ("10.0.0.1", 5353),
        ("198.51.100.1", 80, "TCP"): ("10.0.0.1", 8080),
        ("198.51.100.1", 53, "UDP"): ("10.0.0.1", 5353),
        ("fd96::1", 80, "TCP"): ("fd00::1", 8080),
        ("fd96::1", 53, "UDP"): ("fd00::1", 5353),
    }


def test_services_without_a_frontend() -> None:
    headless = service(clusterIPs=["None"], clusterIP="None")
    assert read(headless, endpoints(("10.0.0.1", READY))) == ()
    assert read(service(type="ExternalName", externalName="example.org")) == ()
    assert read(endpoints(("10.0.0.1", READY))) == (), "a slice of a Service that is not there"


def test_a_service_whose_slices_are_missing_or_of_another_family_has_no_endpoints() -> None:
    (found,) = read(service())
    assert found.backends == ()
    (found,) = read(service(), endpoints(("fd00::1", READY), family=6))
    assert found.backends == ()


def test_local_traffic_policy_keeps_to_the_node() -> None:
    slices = endpoints()
    slices["endpoints"] = [
        {"addresses": ["10.0.0.1"], "nodeName": "node-1", "conditions": DRAINING},
        {"addresses": ["10.0.0.2"], "nodeName": "node-2", "conditions": READY},
    ]
    local = service(internalTrafficPolicy="Local")
    assert shown(read(local, slices)[0]) == [("10.0.0.1", 8080, True), ("10.0.0.2", 8080, False)]
    assert not any(b.takes_new for b in read(local, slices, node=OwnNode("node-3"))[0].backends)


def listed(*found: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    """Endpoints as (address, node, conditions)."""
    slices = endpoints()
    slices["endpoints"] = [{"addresses": [a], "nodeName": n, "conditions": c} for a, n, c in found]
    return slices


def local(frontend: Frontend) -> list[str]:
    return [str(each.address) for each in frontend.backends if each.takes_local]


NODE_PORT = [{"port": 80, "targetPort": "web", "nodePort": 30080}]


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_a_node_port_is_at_every_address_of_the_node(kind: str) -> None:
    exposed = service(type=kind, ports=NODE_PORT)
    six = endpoints(("fd00::1", READY), family=6, name="web-2")
    found = read(exposed, endpoints(("10.0.0.1", READY)), six)
    assert [(str(f.address), f.port, shown(f)) for f in found] == [
        ("10.96.0.1", 80, [("10.0.0.1", 8080, True)]),
        ("192.0.2.7", 30080, [("10.0.0.1", 8080, True)]),
        ("2001:db8::7", 30080, [("fd00::1", 8080, True)]),
    ]


def test_a_node_without_addresses_has_no_node_ports_and_says_so() -> None:
    notes: list[str] = []
    exposed = service(type="NodePort", ports=NODE_PORT)
    (found,) = read(exposed, node=OwnNode("node-1"), note=notes.append)
    assert found.port == 80
    assert len(notes) == 1 and "no addresses of the node node-1 in `nodes`" in notes[0]
    read(exposed, note=notes.append)
    read(service(), node=OwnNode("node-1"), note=notes.append)
    assert len(notes) == 1, "where there are addresses, or no node ports, there is nothing to say"


@pytest.mark.parametrize("number", [None, 0])
def test_a_service_without_node_ports_has_one_frontend(number: int | None) -> None:
    ports = [{"port": 80, "nodePort": number}]
    assert len(read(service(type="LoadBalancer", ports=ports))) == 1
    assert len(read(service(type="ClusterIP", ports=NODE_PORT))) == 1


def test_a_node_port_of_sctp_is_served_only_where_the_port_stays() -> None:
    notes: list[str] = []
    sctp = endpoints(("10.0.0.1", READY), ports=[{"name": "", "protocol": "SCTP", "port": 30080}])
    ports = [{"port": 30080, "protocol": "SCTP", "nodePort": 30080}]
    assert len(read(service(type="NodePort", ports=ports), sctp, note=notes.append)) == 3
    assert notes == []
    ports[0]["nodePort"] = 30081
    assert len(read(service(type="NodePort", ports=ports), sctp, note=notes.append)) == 1
    assert len(notes) == 1 and "30081/SCTP is not served" in notes[0]


def test_two_services_with_one_node_port() -> None:
    exposed = service(type="NodePort", ports=NODE_PORT)
    other = service(type="NodePort", ports=NODE_PORT, clusterIPs=["10.96.0.2"])
    other["metadata"] = {"namespace": "shop", "name": "other"}
    found = read(exposed, other)
    assert {f.service for f in found if f.port == 30080} == {"shop/other"}, "the first by name"
    assert {str(f.address) for f in found if f.port == 80} == {"10.96.0.1", "10.96.0.2"}


@pytest.mark.parametrize(
    ("conditions", "here"),
    [
        ({"1": READY, "2": READY, "far": READY}, ["1", "2"]),
        ({"1": READY, "2": DRAINING, "far": READY}, ["1"]),
        ({"1": NOT_READY, "2": DRAINING, "far": READY}, ["2"]),
        ({"1": NOT_READY, "2": NOT_READY, "far": READY}, []),
        ({"far": READY}, []),
    ],
    ids=str,
)
def test_terminating_endpoints_serve_external_clients_if_none_is_ready(
    conditions: dict[str, dict[str, Any]], here: list[str]
) -> None:
    """KEP-1669: terminating endpoints of the node serve if none of the node's endpoints is ready."""
    slices = listed(
        *(
            ("10.0.1.1", "node-2", c) if name == "far" else (f"10.0.0.{name}", "node-1", c)
            for name, c in conditions.items()
        )
    )
    exposed = service(type="NodePort", ports=NODE_PORT, externalTrafficPolicy="Local")
    inside, outside = read(exposed, slices)[:2]
    assert outside.is_local and not inside.is_local
    assert local(outside) == [f"10.0.0.{name}" for name in here]
    assert local(inside) == [], "nobody comes to a cluster IP from outside"
    assert [b.takes_new for b in outside.backends] == [
        c == READY for _, c in sorted(conditions.items())
    ], "pods of the cluster reach them all"


def test_each_traffic_policy_has_its_own_addresses() -> None:
    slices = listed(("10.0.0.1", "node-2", READY))
    both = service(
        type="NodePort",
        ports=NODE_PORT,
        externalIPs=["198.51.100.1"],
        internalTrafficPolicy="Local",
        externalTrafficPolicy="Cluster",
    )
    found = {str(f.address): f for f in read(both, slices)}
    assert not found["10.96.0.1"].backends[0].takes_new, "no endpoint of this node"
    for address in ("192.0.2.7", "198.51.100.1"):
        assert found[address].backends[0].takes_new and not found[address].is_local


def test_the_parts_of_a_frontend() -> None:
    slices = listed(
        ("10.0.0.1", "node-1", READY), ("10.0.0.2", "node-2", READY), ("10.0.0.3", "node-1", READY)
    )
    exposed = service(type="NodePort", ports=NODE_PORT, externalTrafficPolicy="Local")
    table = Table()
    want = table.update(*read(exposed, slices))
    inside, outside, _ = (numbers_of(each)[:6] for each in want.frontends.values())
    assert inside == (0, 3, 3, 0, 0, 0)
    assert outside == (3, 3, 6, 2, LOCAL | services.NODE_PORT, 0)
    ends = [BACKENDS.layout.raw(table.entries[place], "addr")[:4] for place in want.choices]
    assert [end[3] for end in ends] == [1, 2, 3, 1, 2, 3, 1, 3]
    assert want.choices[3] == want.choices[6] and want.choices[5] == want.choices[7], "one row each"


def test_a_terminating_endpoint_stays_open_for_external_clients() -> None:
    """It terminates, and serves clients outside for as long as no other of the node does."""
    slices = listed(("10.0.0.1", "node-1", DRAINING), ("10.0.0.2", "node-2", READY))
    exposed = service(type="NodePort", ports=NODE_PORT, externalTrafficPolicy="Local")
    want = Table().update(*read(exposed, slices))
    assert BACKENDS.state_of(want.backends[want.choices[-1]]) == 0


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 0),
        ({"sessionAffinity": "None"}, 0),
        ({"sessionAffinity": "ClientIP"}, 10800),
        ({"sessionAffinity": "ClientIP", "sessionAffinityConfig": None}, 10800),
        ({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {}}}, 10800),
        (
            {
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 7}},
            },
            7,
        ),
    ],
    ids=str,
)
def test_session_affinity_has_the_timeout_of_the_service(
    spec: dict[str, Any], seconds: int
) -> None:
    (found,) = read(service(**spec))
    assert found.affinity == seconds


@pytest.mark.parametrize(
    ("annotations", "size"),
    [
        ({}, 0),
        ({"balance": "random"}, 0),
        ({"balance": "maglev"}, 65521),
        ({"balance": "maglev", "maglev_slots": "1021"}, 1021),
        ({"maglev_slots": "1021"}, 0),
    ],
    ids=str,
)
def test_annotations_select_random_or_maglev_balancing(
    annotations: dict[str, object], size: int
) -> None:
    (found,) = read(annotated(**annotations))
    assert found.maglev_slots == size


@pytest.mark.parametrize(
    ("annotations", "way", "bits"),
    [({}, None, 0), ({"outside": "tunnel"}, "tunnel", 2), ({"outside": "dsr"}, "dsr", 4)],
    ids=str,
)
def test_an_annotation_selects_the_return_path_for_external_clients(
    annotations: dict[str, object], way: str | None, bits: int
) -> None:
    slices = endpoints(("10.0.0.1", READY), ("10.0.0.2", NOT_READY))
    (found,) = read(annotated(**annotations), slices)
    assert found.return_path == way
    table = Table()
    (place,) = table.update(
        *read(annotated(**annotations), endpoints(("10.0.0.1", READY)))
    ).backends
    assert BACKENDS.state_of(table.update(found).backends[place]) == bits
    closed = read(annotated(**annotations), endpoints(("10.0.0.1", NOT_READY)))
    assert BACKENDS.state_of(table.update(*closed).backends[place]) == bits | 1


BALANCED = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 32000}


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        (BALANCED, True),
        (BALANCED | {"type": "NodePort"}, False),
        (BALANCED | {"externalTrafficPolicy": "Cluster"}, False),
        (BALANCED | {"healthCheckNodePort": 0}, False),
        ({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}, False),
    ],
    ids=str,
)
def test_a_health_check_port_is_noted(spec: dict[str, Any], asked: bool) -> None:
    notes: list[str] = []
    read(service(**spec), note=notes.append)
    said = [each for each in notes if "while `policyc node follow` runs" in each]
    assert [each.split(" of ")[1][:2] for each in said] == (["1 "] if asked else [])


def test_a_health_check_and_masquerade_do_not_share_a_port() -> None:
    own = OwnNode("node-1", ADDRESSES, masquerade_ports=range(31000, 33000))
    with pytest.raises(InputError, match="32000 is one of the SNAT ports"):
        read(service(**BALANCED), node=own)


def test_a_service_with_another_return_path_keeps_its_backends() -> None:
    table, slices = Table(), endpoints(("10.0.0.1", READY))
    first = table.update(*read(annotated(outside="dsr"), slices))
    then = table.update(*read(annotated(outside="tunnel"), slices))
    assert not then.new and then.backends.keys() == first.backends.keys()


def test_tables_are_for_the_endpoints_of_each_part() -> None:
    slices = listed(
        ("10.0.0.1", "node-1", READY), ("10.0.0.2", "node-2", READY), ("10.0.0.3", "node-1", READY)
    )
    exposed = annotated(balance="maglev", maglev_slots="251")
    exposed["spec"] |= {"type": "NodePort", "ports": NODE_PORT}
    want = Table().update(*read(exposed, slices))
    parts = [numbers_of(each)[8:] for each in want.frontends.values()]
    assert parts == [(251, 0, 0), (251, 0, 251), (251, 0, 0)]
    memory = want.tables.memory()
    assert {*memory[: 2 * 251 : 2]} == {0, 1, 2} and {*memory[2 * 251 :: 2]} == {0, 1}


def test_a_port_has_one_number_at_all_its_addresses() -> None:
    ports = [{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81}]
    spec = {"type": "NodePort", "ports": ports, "clusterIPs": ["10.96.0.1", "fd96::1"]}
    found = read(service(**spec))
    of = {(f.address.version, f.port): f.number for f in found}
    assert of[4, 80] == of[4, 30080] and of[6, 80] == of[6, 30080]
    assert len(set(of.values())) == 4, "of (a, b) and both families"
    assert [f.number for f in read(service(**spec))] == [f.number for f in found]


def test_an_endpoint_in_two_slices_is_one() -> None:
    (found,) = read(
        service(),
        endpoints(("10.0.0.1", NOT_READY)),
        endpoints(("10.0.0.1", READY), name="web-2"),
    )
    assert shown(found) == [("10.0.0.1", 8080, True)]


def test_lists_as_kubectl_writes_them() -> None:
    both = [service(), endpoints(("10.0.0.1", READY))]
    assert read({"apiVersion": "v1", "kind": "List", "items": both}) == read(*both)
    bare = {key: each for key, each in service().items() if key not in ("kind", "apiVersion")}
    assert read({"apiVersion": "v1", "kind": "ServiceList", "items": [bare]}) == read(service())


def annotated(**annotations: object) -> dict[str, Any]:
    found = service()
    found["metadata"]["annotations"] = {
        f"policyc.dev/{name.replace('_', '-')}": each for name, each in annotations.items()
    } | {"example.org/other": "x"}
    return found


WRONG = {
    "a kind that is no Service": (
        {"apiVersion": "v1", "kind": "Pod"},
        r"\$: expected a Service \(v1\) or an EndpointSlice .*, found Pod",
    ),
    "another version": (
        {"apiVersion": "discovery.k8s.io/v1beta1", "kind": "EndpointSlice"},
        "found EndpointSlice",
    ),
    "an unknown field": (service(clusterIPS=[]), r"unknown field `clusterIPS`"),
    "a port out of range": (service(ports=[{"port": 70000}]), r"ports\[0\].port: .*70000"),
    "a protocol": (
        service(ports=[{"port": 1, "protocol": "ICMP"}]),
        r"protocol: expected one of TCP",
    ),
    "an address": (service(clusterIPs=["10.96.0"]), r"clusterIPs\[0\]: expected an IPv4"),
    "loopback": (service(externalIPs=["127.0.0.1"]), "is loopback"),
    "affinity": (service(sessionAffinity="Client"), "expected one of None, ClientIP"),
    "a time for affinity": (
        service(
            sessionAffinity="ClientIP",
            sessionAffinityConfig={"clientIP": {"timeoutSeconds": 86401}},
        ),
        r"clientIP\.timeoutSeconds: expected a number from 1 to 86400",
    ),
    "a range": (
        service(loadBalancerSourceRanges=["192.0.2.0/33"]),
        r"loadBalancerSourceRanges\[0\]: expected a range of addresses",
    ),
    "a type": (service(type="Clusterip"), "expected one of ClusterIP"),
    "no spec": ({k: v for k, v in service().items() if k != "spec"}, "`spec` is missing"),
    "an endpoint of another family": (
        endpoints(("fd00::1", READY)),
        "is no IPv4 address, as addressType says",
    ),
    "a way to balance": (
        annotated(balance="maglevs"),
        r"annotations\.policyc\.dev/balance: expected one of random, maglev",
    ),
    "a number of slots": (
        annotated(balance="maglev", maglev_slots="1000"),
        r"maglev-slots: expected one of 251, 1021",
    ),
    "a way back": (
        annotated(outside="DSR"),
        r"annotations\.policyc\.dev/outside: expected one of tunnel, dsr, found",
    ),
    "a hint": (
        endpoints(endpoints=[{"addresses": ["10.0.0.1"], "hints": {"forZones": [{"zone": "a"}]}}]),
        r"forZones\[0\]\.zone: unknown field `zone`",
    ),
    "a condition": (endpoints(("10.0.0.1", {"raedy": True})), "unknown field `raedy`"),
    "no addresses": (
        endpoints(endpoints=[{"addresses": []}]),
        "expected at least one address",
    ),
}


@pytest.mark.parametrize(("wrong", "message"), WRONG.values(), ids=WRONG.keys())
def test_an_invalid_service_is_reported_with_its_position(
    wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(wrong)
    assert str(caught.value).startswith("services.json: $")


def test_two_services_with_one_address_and_port() -> None:
    other = service()
    other["metadata"] = {"namespace": "shop", "name": "other"}
    assert [f.service for f in read(service(), other)] == ["shop/other"], "the first by name"
    with pytest.raises(InputError, match=r"Service shop/web is also services\.json"):
        read(service(), service())


def test_sctp_cannot_change_its_port() -> None:
    sctp = service(ports=[{"port": 80, "protocol": "SCTP"}])
    ports = [{"name": "", "protocol": "SCTP", "port": 8080}]
    with pytest.raises(InputError, match="SCTP to port 80 goes to port 8080"):
        read(sctp, endpoints(("10.0.0.1", READY), ports=ports))


def hinted(**hints: tuple[dict[str, Any], list[str], list[str]]) -> dict[str, Any]:
    """Endpoints by the last number of their address: conditions, zones and nodes that are hinted."""
    slices = endpoints()
    slices["endpoints"] = [
        {
            "addresses": [f"10.0.0.{name[1:]}"],
            "nodeName": "node-1" if name == "e1" else "node-9",
            "conditions": conditions,
            "hints": {
                "forZones": [{"name": each} for each in zones],
                "forNodes": [{"name": each} for each in nodes],
            },
        }
        for name, (conditions, zones, nodes) in hints.items()
    ]
    return slices


IN_ZONE = OwnNode("node-1", ADDRESSES, "a")


@pytest.mark.parametrize(
    ("slices", "chosen"),
    [
        (hinted(e1=(READY, ["a"], []), e2=(READY, ["b"], [])), "1"),
        (hinted(e1=(READY, ["a", "b"], []), e2=(READY, ["b"], []), e3=(READY, ["a"], [])), "13"),
        (hinted(e1=(READY, ["a"], []), e2=(READY, [], [])), "12"),
        (hinted(e1=(READY, ["c"], []), e2=(READY, ["b"], [])), "12"),
        (hinted(e1=(NOT_READY, [], []), e2=(READY, ["a"], []), e3=(READY, ["b"], [])), "2"),
        (hinted(e1=(NOT_READY, ["a"], []), e2=(READY, ["b"], [])), "2"),
        (hinted(e1=(DRAINING, ["b"], []), e2=(DRAINING, ["a"], [])), "12"),
        (hinted(e1=(READY, ["a"], ["node-1"]), e2=(READY, ["a"], ["node-2"])), "1"),
        (hinted(e1=(READY, ["b"], ["node-2"]), e2=(READY, ["a"], ["node-2"])), "2"),
        (hinted(e1=(READY, ["a"], ["node-1"]), e2=(READY, ["a"], [])), "12"),
        (hinted(e1=(READY, [], ["node-1"]), e2=(READY, [], ["node-2"])), "1"),
    ],
    ids=[
        "one for the zone",
        "several zones",
        "one without a hint",
        "none for the zone",
        "only ready ones need one",
        "only ready ones are for a zone",
        "terminating ones are for all",
        "the node before the zone",
        "the zone where none is for the node",
        "one without a hint for nodes",
        "nodes alone",
    ],
)
def test_hints_select_endpoints_for_clients_of_the_node(
    slices: dict[str, Any], chosen: str
) -> None:
    exposed = service(type="NodePort", ports=NODE_PORT, externalTrafficPolicy="Local")
    inside, outside, _ = read(exposed, slices, node=IN_ZONE)
    for found in (inside, outside):
        takes = [str(b.address)[-1] for b in found.backends if b.takes_new]
        assert "".join(takes) == chosen
    is_ready = slices["endpoints"][0]["conditions"] != NOT_READY
    assert local(outside) == (["10.0.0.1"] if is_ready else []), "no hint is about those"


def test_hints_without_a_zone_are_ignored() -> None:
    slices = hinted(e1=(READY, ["a"], []), e2=(READY, ["b"], []))
    assert all(takes for _, _, takes in shown(read(service(), slices)[0]))


def test_policy_local_ignores_hints() -> None:
    slices = hinted(e1=(READY, ["b"], []), e2=(READY, ["a"], []))
    (found,) = read(service(internalTrafficPolicy="Local"), slices, node=IN_ZONE)
    assert shown(found) == [("10.0.0.1", 8080, True), ("10.0.0.2", 8080, False)]


def balanced(**spec: Any) -> dict[str, Any]:
    ingress = [{"ip": "198.51.100.1"}, {"ip": "2001:db8:51::1"}]
    return service(type="LoadBalancer", ports=NODE_PORT, **spec) | {
        "status": {"loadBalancer": {"ingress": ingress}}
    }


def test_source_ranges_are_for_addresses_of_the_load_balancer() -> None:
    ranges = ["192.0.2.0/24", " 203.0.113.9/25", "192.0.2.0/24", "2001:db8::/32"]
    found = {str(f.address): f.ranges for f in read(balanced(loadBalancerSourceRanges=ranges))}
    networks = ipaddress.ip_network("192.0.2.0/24"), ipaddress.ip_network("203.0.113.0/25")
    assert found == {
        "10.96.0.1": None,
        "192.0.2.7": None,
        "2001:db8::7": None,
        "198.51.100.1": networks,
        "2001:db8:51::1": (ipaddress.ip_network("2001:db8::/32"),),
    }


def test_ranges_of_one_family_admit_no_client_of_the_other() -> None:
    found = {str(f.address): f.ranges for f in read(balanced(loadBalancerSourceRanges=["::/0"]))}
    assert found["198.51.100.1"] == ()
    for none in ([], None):
        found = {str(f.address): f.ranges for f in read(balanced(loadBalancerSourceRanges=none))}
        assert found["198.51.100.1"] is None


def test_an_address_that_is_external_too_keeps_its_ranges() -> None:
    both = balanced(loadBalancerSourceRanges=["192.0.2.0/24"], externalIPs=["198.51.100.1"])
    (found,) = (f for f in read(both) if str(f.address) == "198.51.100.1")
    assert found.ranges


def test_equal_ranges_share_a_list() -> None:
    lists = Lists()
    one, two = (ipaddress.ip_network(each) for each in ("192.0.2.0/24", "2001:db8::/32"))
    assert [lists.of(each) for each in (None, (one,), (), (two,), (one,))] == [0, 1, 2, 3, 1]
    assert lists.n_ranges == 2
    assert list(lists.ranges()) == [(1, one), (3, two)]


class Table:
    """The backends as the kernel would hold them."""

    def __init__(self, places: int = 8) -> None:
        self.entries = [bytes(BACKENDS.size)] * places
        self.plan = Planner(FRONTENDS, BACKENDS, Capacities(100, places, 100, 100, 1000))

    def update(self, *frontends: Frontend) -> Wanted:
        want = self.plan.wanted(frontends, b"".join(self.entries))
        for place in want.new:
            self.entries[place] = want.backends[place]
        for place, entry in enumerate(self.entries):
            if place not in want.backends:
                self.entries[place] = bytes(4) + entry[4:]
        return want

    def ident(self, place: int) -> int:
        return int.from_bytes(self.entries[place][:4], "little")


def numbers_of(value: bytes) -> tuple[int, ...]:
    """The fields of a frontend's value, in order."""
    return struct.unpack("=11I", value)


def frontend(*backends: tuple[str, bool], port: int = 80) -> Frontend:
    slices = endpoints(*((a, READY if ready else NOT_READY) for a, ready in backends))
    (found,) = read(service(ports=[{"port": port}]), slices)
    return found


def test_a_row_keeps_its_position_and_id() -> None:
    table = Table()
    (place,) = table.update(frontend(("10.0.0.1", True))).new
    ident = table.ident(place)
    again = table.update(frontend(("10.0.0.1", True), ("10.0.0.2", True)))
    assert place in again.choices and place not in again.new and table.ident(place) == ident
    closed = table.update(frontend(("10.0.0.1", False), ("10.0.0.2", True)))
    assert place not in closed.choices and place in closed.backends
    assert BACKENDS.state_of(closed.backends[place]) == NO_NEW


def test_no_id_is_given_twice() -> None:
    table = Table(places=2)
    seen: set[int] = set()
    for turn in range(100):
        (place,) = table.update(frontend((f"10.0.1.{turn}", True))).new
        assert table.ident(place) not in seen | {0}
        assert table.ident(place) & 0xFFFF == place and table.ident(place) >> 31 == 0
        seen.add(table.ident(place))
        table.update()


def test_an_endpoint_that_never_took_a_connection_needs_no_row() -> None:
    want = Table().update(frontend(("10.0.0.1", False)))
    assert want.backends == {}
    (packed,) = want.frontends.values()
    assert numbers_of(packed)[:6] == (0, 0, 0, 0, 0, 0)


def test_backends_beyond_the_table_are_refused() -> None:
    many = frontend(*((f"10.0.2.{i}", True) for i in range(9)))
    with pytest.raises(InputError, match="endpoints of Services"):
        Table(places=8).update(many)


def test_a_key_holds_its_buffer_and_family() -> None:
    key_of, four = Table().plan.key_of, frontend(("10.0.0.1", True))
    assert key_of(four, 0) == bytes([10, 96, 0, 1, *bytes(12), 0, 80, 6, 8])
    assert [FRONTENDS.buffer_of(key_of(four, buffer)) for buffer in (0, 1)] == [0, 1]


def test_a_balancer_with_more_ranges_than_an_object_may_have_is_left_out() -> None:
    """Its own address stays in force; without its ranges the balancer's would be open to all."""
    ranges = [f"10.{i >> 8}.{i & 255}.0/24" for i in range(8193)]
    found = read(balanced(loadBalancerSourceRanges=ranges))
    whole = read(balanced())
    balancers = {each for each in whole if each.kind is Kind.BALANCER}
    assert balancers and set(found) == set(whole) - balancers


def test_each_frontend_has_its_own_backends() -> None:
    two = read(
        service(externalIPs=["192.0.2.1"]),
        endpoints(("10.0.0.1", READY)),
    )
    want = Table().update(*two)
    parts = [numbers_of(each)[:2] for each in want.frontends.values()]
    assert len(want.new) == 2 and parts == [(0, 1), (1, 1)]
    assert isinstance(two[0].backends[0], Backend)


def test_text_that_cannot_be_written_is_refused() -> None:
    """JSON can escape half of a surrogate pair, which no file and no digest takes."""
    raw = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 80, "name": "\udc00"}]},
    }
    where = r"services.json: \$.spec.ports\[0\].name: expected text"
    with pytest.raises(InputError, match=where):
        read_services([JsonValue(raw, Path("services.json"))], OwnNode("node-1"))
