# SPDX-License-Identifier: Apache-2.0
"""Services and EndpointSlices become frontends and backends, and those become rows that stay put."""

from pathlib import Path
from typing import Any

import pytest

from policyc.runtime import service_rows
from policyc.runtime.errors import InputError
from policyc.runtime.json_value import JsonValue
from policyc.runtime.service_rows import ROW, Wanted, frontend_key, key_half, wanted
from policyc.runtime.services import Backend, Frontend, read_services

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


def read(*objects: dict[str, Any], node: str = "node-1") -> tuple[Frontend, ...]:
    return read_services([value(each) for each in objects], node)


def shown(frontend: Frontend) -> list[tuple[str, int, bool]]:
    return [(str(b.address), b.port, b.takes_new) for b in frontend.backends]


def test_a_service_and_its_endpoints() -> None:
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
def test_which_endpoints_take_new_connections(
    conditions: list[dict[str, Any]], takes_new: list[bool]
) -> None:
    (found,) = read(service(), endpoints(*zip(("10.0.0.1", "10.0.0.2"), conditions, strict=True)))
    assert [each.takes_new for each in found.backends] == takes_new
    assert [each.drains for each in found.backends] == [
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


def test_what_gives_no_frontend() -> None:
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
    assert not any(b.takes_new for b in read(local, slices, node="node-3")[0].backends)


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
    "affinity": (service(sessionAffinity="ClientIP"), "session affinity is not supported yet"),
    "a type": (service(type="Clusterip"), "expected one of ClusterIP"),
    "no spec": ({k: v for k, v in service().items() if k != "spec"}, "`spec` is missing"),
    "an endpoint of another family": (
        endpoints(("fd00::1", READY)),
        "is no IPv4 address, as addressType says",
    ),
    "a condition": (endpoints(("10.0.0.1", {"raedy": True})), "unknown field `raedy`"),
    "no addresses": (
        endpoints(endpoints=[{"addresses": []}]),
        "expected at least one address",
    ),
}


@pytest.mark.parametrize(("wrong", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said_with_its_place(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(wrong)
    assert str(caught.value).startswith("services.json: $")


def test_two_services_with_one_address_and_port() -> None:
    other = service()
    other["metadata"] = {"namespace": "shop", "name": "other"}
    with pytest.raises(
        InputError, match=r"10\.96\.0\.1 port 80/TCP is also that of the Service shop/web"
    ):
        read(service(), other)
    with pytest.raises(InputError, match=r"Service shop/web is also services\.json"):
        read(service(), service())


def test_sctp_cannot_change_its_port() -> None:
    sctp = service(ports=[{"port": 80, "protocol": "SCTP"}])
    ports = [{"name": "", "protocol": "SCTP", "port": 8080}]
    with pytest.raises(InputError, match="SCTP to port 80 goes to port 8080"):
        read(sctp, endpoints(("10.0.0.1", READY), ports=ports))


def test_source_ranges_are_refused_where_they_would_apply() -> None:
    limited = service(loadBalancerSourceRanges=["192.0.2.0/24"])
    assert read(limited)
    with pytest.raises(InputError, match="source ranges are not supported yet"):
        read(limited | {"status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}}})


class Table:
    """The rows as the kernel would hold them."""

    def __init__(self, places: int = 8) -> None:
        self.rows = [bytes(ROW.size)] * places

    def update(self, *frontends: Frontend) -> Wanted:
        want = wanted(frontends, self.rows)
        for place in want.new:
            self.rows[place] = want.rows[place]
        for place, row in enumerate(self.rows):
            if place not in want.rows:
                self.rows[place] = bytes(4) + row[4:]
        return want

    def ident(self, place: int) -> int:
        return int.from_bytes(self.rows[place][:4], "little")


def frontend(*backends: tuple[str, bool], port: int = 80) -> Frontend:
    slices = endpoints(*((a, READY if ready else NOT_READY) for a, ready in backends))
    (found,) = read(service(ports=[{"port": port}]), slices)
    return found


def test_a_row_stays_where_it_is_and_keeps_its_id() -> None:
    table = Table()
    (place,) = table.update(frontend(("10.0.0.1", True))).new
    ident = table.ident(place)
    again = table.update(frontend(("10.0.0.1", True), ("10.0.0.2", True)))
    assert place in again.choices and place not in again.new and table.ident(place) == ident
    closed = table.update(frontend(("10.0.0.1", False), ("10.0.0.2", True)))
    assert place not in closed.choices and place in closed.rows
    assert closed.rows[place][service_rows.STATE_AT] == service_rows.CLOSED


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
    assert want.rows == {} and want.frontends == {frontend(("10.0.0.1", False)): (0, 0)}


def test_where_there_is_no_room() -> None:
    many = frontend(*((f"10.0.2.{i}", True) for i in range(9)))
    with pytest.raises(InputError, match="endpoints of Services"):
        Table(places=8).update(many)


def test_a_key_says_its_half_and_family() -> None:
    four = frontend(("10.0.0.1", True))
    assert frontend_key(four, 0) == bytes([10, 96, 0, 1, *bytes(12), 0, 80, 6, 8])
    assert [key_half(frontend_key(four, half)) for half in (0, 1)] == [0, 1]


def test_backends_of_two_frontends_are_rows_of_their_own() -> None:
    two = read(
        service(externalIPs=["192.0.2.1"]),
        endpoints(("10.0.0.1", READY)),
    )
    want = Table().update(*two)
    assert len(want.new) == 2 and list(want.frontends.values()) == [(0, 1), (1, 1)]
    assert isinstance(two[0].backends[0], Backend)
