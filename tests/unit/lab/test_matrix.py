# SPDX-License-Identifier: Apache-2.0
"""A comparison names what differs, and a refusal is only where a rule rejects."""

import json
from io import StringIO

import pytest
from rich.console import Console

from policyc.runtime.lab.matrix import Comparison, compare, render, to_json
from policyc.runtime.lab.probes import Observation, Outcome, Probe, Protocol

HTTP = Probe("shop/web", "shop/db", 4, Protocol.TCP, 80)
SQL = Probe("shop/web", "shop/db", 4, Protocol.TCP, 5432)
DNS = Probe("shop/db", "external", 6, Protocol.UDP, 53)
PING = Probe("external", "shop/web", 6, Protocol.ICMP)

ALLOWED = Observation(Outcome.ALLOWED)
DENIED = Observation(Outcome.DENIED)
REFUSED = Observation(Outcome.REFUSED, "Connection refused")

EXPECTED = {
    HTTP: Outcome.DENIED,
    SQL: Outcome.ALLOWED,
    DNS: Outcome.ALLOWED,
    PING: Outcome.DENIED,
}
AS_EXPECTED = {HTTP: DENIED, SQL: ALLOWED, DNS: ALLOWED, PING: DENIED}


def text(comparison: Comparison, *, max_differences: int = 50, width: int = 120) -> str:
    console = Console(file=StringIO(), width=width, color_system=None)
    console.print(render(comparison, max_differences=max_differences))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_agreement_has_no_differences() -> None:
    comparison = compare(EXPECTED, AS_EXPECTED)
    assert comparison.agrees
    assert comparison.total.n_probes == 4
    assert comparison.total.n_allowed == comparison.total.n_expected == 2
    assert "4 probes: 2 allowed, 2 not; all as expected" in text(comparison)


@pytest.mark.parametrize(
    ("probe", "seen"),
    [
        (HTTP, ALLOWED),
        (HTTP, REFUSED),
        (SQL, DENIED),
        (SQL, REFUSED),
        (PING, Observation(Outcome.ERROR, "Network is down")),
    ],
)
def test_any_other_outcome_is_a_difference(probe: Probe, seen: Observation) -> None:
    comparison = compare(EXPECTED, AS_EXPECTED | {probe: seen})
    assert [(d.probe, d.seen) for d in comparison.differences] == [(probe, seen)]
    assert f"{probe}: expected " in text(comparison)
    assert "1 differs from expected" in text(comparison)


def test_a_denied_flow_may_time_out_but_not_connect() -> None:
    expected = EXPECTED | {HTTP: Outcome.REFUSED}
    assert compare(expected, AS_EXPECTED | {HTTP: REFUSED}).agrees
    assert compare(expected, AS_EXPECTED).agrees
    assert not compare(expected, AS_EXPECTED | {HTTP: ALLOWED}).agrees


def test_a_difference_says_flow_expectation_and_finding() -> None:
    (difference,) = compare(EXPECTED, AS_EXPECTED | {SQL: REFUSED}).differences
    assert str(difference) == (
        "shop/web -> shop/db TCP 5432 IPv4: expected allowed, seen refused (Connection refused)"
    )


def test_cells_count_by_source_and_destination() -> None:
    comparison = compare(EXPECTED, AS_EXPECTED | {HTTP: ALLOWED})
    assert comparison.sources == ("shop/web", "shop/db", "external")
    assert comparison.destinations == ("shop/db", "external", "shop/web")
    cell = comparison.cells["shop/web", "shop/db"]
    assert (cell.n_probes, cell.n_expected, cell.n_allowed, cell.n_differences) == (2, 1, 2, 1)
    assert ("shop/db", "shop/web") not in comparison.cells


def test_the_table_marks_cells_without_colour_too() -> None:
    lines = text(compare(EXPECTED, AS_EXPECTED | {HTTP: ALLOWED})).splitlines()
    assert lines[0].split() == ["from", "\\", "to", "1", "2", "3"]
    assert lines[1].split() == ["1", "shop/web", "!+"]
    assert lines[2].split() == ["2", "shop/db", "+"]
    assert lines[3].split() == ["3", "external", "."]


def test_a_cell_with_some_of_its_probes_allowed_counts_them() -> None:
    lines = text(compare(EXPECTED, AS_EXPECTED)).splitlines()
    assert lines[1].split() == ["1", "shop/web", "1"]


def test_a_narrow_terminal_cuts_names_and_not_cells() -> None:
    ends = [f"shop/a-rather-long-name-{n}" for n in range(16)]
    probes = [Probe(a, b, 4, Protocol.TCP, 80) for a in ends for b in ends]
    comparison = compare(dict.fromkeys(probes, Outcome.ALLOWED), dict.fromkeys(probes, ALLOWED))
    lines = text(comparison, width=80).splitlines()
    assert lines[16].split()[2:] == ["+"] * 16
    assert max(map(len, lines)) <= 80


def test_a_long_list_of_differences_is_cut() -> None:
    seen = dict.fromkeys(EXPECTED, REFUSED)
    out = text(compare(EXPECTED, seen), max_differences=1)
    assert out.count("expected allowed, seen") + out.count("expected denied, seen") == 1
    assert "and 3 more" in out


def test_both_sides_hold_the_same_probes() -> None:
    with pytest.raises(ValueError, match="expected but not seen"):
        compare(EXPECTED, {HTTP: DENIED})
    with pytest.raises(ValueError, match="seen but not expected"):
        compare({HTTP: Outcome.DENIED}, {HTTP: DENIED, PING: DENIED})


def test_json_holds_every_observation() -> None:
    seen = AS_EXPECTED | {SQL: REFUSED}
    document = json.loads(json.dumps(to_json(compare(EXPECTED, seen), seen)))
    assert document["schema"] == "policyc.dev/lab-result/v1"
    assert (document["agrees"], document["probes"], document["allowed"]) == (False, 4, 1)
    assert document["differences"] == [
        {
            "source": "shop/web",
            "destination": "shop/db",
            "family": 4,
            "protocol": "TCP",
            "port": 5432,
            "outcome": "refused",
            "detail": "Connection refused",
            "expected": "allowed",
        }
    ]
    assert len(document["seen"]) == 4
    assert "port" not in document["seen"][3]


@pytest.mark.parametrize(
    ("protocol", "port"), [(Protocol.TCP, 0), (Protocol.UDP, 65536), (Protocol.ICMP, 8)]
)
def test_a_probe_has_a_port_exactly_if_its_protocol_has(protocol: Protocol, port: int) -> None:
    with pytest.raises(ValueError, match="port"):
        Probe("a", "b", 4, protocol, port)
