# SPDX-License-Identifier: Apache-2.0
"""Each format of observed flows: what a record means, and what of it is skipped or refused."""

import json
from typing import Any

import pytest

from policyc.compiler.frontend.observed.reading import MOST_ERRORS
from policyc.ir.errors import InputError
from tests.unit.frontend.observed.shop import OBSERVED, flows_in_words, read, read_example

FRONTEND, CART = "shop/frontend-nhbvjhtqvn-tkb9m", "shop/cart-hgjhk7psnj-j2l84"
CATALOG = "shop/catalog-v1-lzx6hctwnb-bcjhc"


def changed(line: int, **values: object) -> str:
    """A line of the example of Hubble with other fields."""
    record: dict[str, Any] = json.loads((OBSERVED / "hubble.jsonl").read_text().splitlines()[line])
    record["flow"] |= values
    return json.dumps(record)


def test_hubble_counts_both_ends_once_and_skips_replies() -> None:
    found = read_example("hubble.jsonl")
    assert found.form == "hubble"
    replica = "shop/frontend-nhbvjhtqvn-ccktb"
    assert flows_in_words(found) == {
        f"{FRONTEND} -> {CART} TCP 7070 (IPv4)": (1, 0),
        f"{replica} -> {CATALOG} TCP 8080 (IPv4)": (1, 0),  # a deleted pod, by its labels
        f"203.0.113.9 -> {FRONTEND} TCP 8080 (IPv4)": (1, 0),
        f"{CATALOG} -> {CART} TCP 7070 (IPv4)": (1, 1),
    }
    assert found.skipped == {"replies": 1, "notices of lost events": 1}
    assert not found.columns.unplaced


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"Type": "L7"}, "records of layer 7 and of sockets"),
        ({"verdict": "TRANSLATED"}, "records of verdict TRANSLATED"),
        ({"is_reply": None}, "traces of unknown direction (without is_reply)"),
    ],
)
def test_hubble_skips_what_opens_no_connection(values: dict[str, object], why: str) -> None:
    assert read(changed(0, **values)).skipped == {why: 1}


def test_hubble_reads_icmp_and_ipv6() -> None:
    addresses = {"source": "fd00:10:244:1::12", "destination": "2001:db8::7", "ipVersion": "IPv6"}
    l4 = {"ICMPv6": {"type": 128}}
    found = read(changed(0, IP=addresses, l4=l4, destination={"labels": ["reserved:world"]}))
    assert list(flows_in_words(found)) == [
        f"{FRONTEND} -> 2001:db8::7 ICMPV6 type 128 code 0 (IPv6)"
    ]


def test_calico_takes_the_larger_number_of_both_reporters() -> None:
    found = read_example("calico.jsonl")
    assert found.form == "calico"
    shown = flows_in_words(found)
    assert sorted(shown.values()) == [(5, 0), (5, 5)]
    assert found.columns.unplaced == {"source: ends recorded without pod and address": 5}


def test_calico_reads_files_of_flow_logs() -> None:
    record = {
        "start_time": 1714813950, "action": "allow", "reporter": "dst", "proto": "udp",
        "source_type": "net", "source_name": "-", "source_name_aggr": "pub",
        "source_namespace": "-", "source_ip": "198.51.100.7", "source_labels": {"labels": []},
        "dest_type": "wep", "dest_name": "-", "dest_name_aggr": "cart-hgjhk7psnj-*",
        "dest_namespace": "shop", "dest_ip": None, "dest_port": "7070", "num_flows": 9,
        "dest_labels": {"labels": ["app=cart", "pod-template-hash=hgjhk7psnj"]},
    }  # fmt: skip
    found = flows_in_words(read(json.dumps(record)))
    assert found == {f"198.51.100.7 -> {CART} UDP 7070 (IPv4)": (9, 0)}


def event(**values: object) -> str:
    """An event of a node."""
    return json.dumps(
        {
            "schema": "policyc.dev/node-event/v1", "kind": "connection", "verdict": "denied",
            "protocol": "TCP", "source": "", "source_address": "203.0.113.9", "source_port": 4000,
            "destination": FRONTEND, "destination_address": "10.244.1.12",
            "destination_port": 8080, "icmp_type": None, "icmp_code": None, "by_reply": False,
            "egress": None, "ingress": {"decided": {}},
        }
        | values
    )  # fmt: skip


def test_events_of_nodes() -> None:
    found = read(event(), event(), event(by_reply=True), event(kind="lost"))
    assert found.form == "events"
    assert flows_in_words(found) == {f"203.0.113.9 -> {FRONTEND} TCP 8080 (IPv4)": (2, 2)}
    assert found.skipped == {"replies": 1, "records of kind lost": 1}


def test_csv_sums_counts_and_reads_verdicts() -> None:
    found = read(
        "src,dst,protocol,port,count,verdict",
        "shop/frontend,shop/cart,tcp,7070,3,allowed",
        '"shop/frontend",shop/cart,TCP,7070,,denied',
    )
    assert flows_in_words(found) == {"shop/frontend -> shop/cart TCP 7070 (IPv4)": (4, 1)}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("shop/gone,shop/cart,tcp,1", "source: pods that the cluster does not have"),
        ("node/gone,shop/cart,tcp,1", "source: a node that the cluster does not have"),
        ("shop/cart,10.244.1.250,tcp,1", "destination: addresses of pod networks"),
        ("shop/cart,10.96.0.10,tcp,1", "destination: addresses of Services"),
    ],
)
def test_an_end_that_is_not_known_is_counted_and_not_guessed(line: str, why: str) -> None:
    found = read("src,dst,protocol,port", line)
    assert not flows_in_words(found)
    (said,) = found.columns.unplaced
    assert said.startswith(why)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["src,dest,protocol", "a,b,c"], "unknown column `dest`"),
        (["src,dst,protocol", "shop/cart,shop/frontend,tcp"], "tcp needs a port"),
        (["src,dst,protocol,port", "shop/cart,frontend,tcp,1"], "`dst` is 'frontend'"),
        (["src,dst,protocol,port", "shop/cart,frontend"], "4 columns, this row has 2"),
        ([changed(0, verdict="FORWARD")], "`verdict` is 'FORWARD'"),
        ([changed(0, l4={})], "`l4` names none of"),
        ([changed(0), "{"], "not JSON"),
        (['{"a": 1}'], "the format of the first line is not known"),
        ([], "there is no record"),
    ],
)
def test_a_line_that_is_not_understood_is_an_error_with_its_place(
    lines: list[str], problem: str
) -> None:
    with pytest.raises(InputError) as failure:
        read(*lines)
    (finding,) = failure.value.findings
    assert problem in finding.message
    assert finding.code == "PC0712"
    assert finding.span.line == max(1, len(lines) if "column `" not in problem else 1)
    assert finding.hint


def test_lines_that_are_not_understood_can_be_skipped_and_are_counted() -> None:
    found = read(changed(0), "{", changed(0, l4={}), skip_unknown=True)
    assert (found.unknown, found.n_records, len(found.columns.flows)) == (2, 3, 1)


def test_reading_stops_after_some_errors() -> None:
    with pytest.raises(InputError) as failure:
        read("src,dst,protocol", *["x"] * 100)
    assert len(failure.value.findings) == MOST_ERRORS
