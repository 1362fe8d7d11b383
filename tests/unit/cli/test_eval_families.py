# SPDX-License-Identifier: Apache-2.0
"""An end written as an address fixes the family of the flow, also where a dual-stack pod holds it."""

from pathlib import Path

import pytest

from policyc.compiler.cli.main import run

POLICY = (
    "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: ns}\n"
    "spec:\n  podSelector: {}\n  ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]\n"
)
CLUSTER = """\
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: ns},
 status: {podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: ns},
 status: {podIPs: [{ip: 10.0.0.2}, {ip: "fd00::2"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: four, namespace: ns},
 status: {podIPs: [{ip: 10.0.0.4}]}}
"""


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    (tmp_path / "p.yaml").write_text(POLICY)
    (tmp_path / "c.yaml").write_text(CLUSTER)
    return ["-f", str(tmp_path / "p.yaml"), "--cluster", str(tmp_path / "c.yaml")]


@pytest.mark.parametrize(
    ("src", "dst", "service", "shown"),
    [
        ("fd00::2", "fd00::1", "tcp/80", "ns/b -> ns/a TCP 80 (IPv6): deny"),
        ("fd00::2", "ns/a", "tcp/80", "ns/b -> ns/a TCP 80 (IPv6): deny"),
        ("ns/b", "fd00::1", "tcp/80", "ns/b -> ns/a TCP 80 (IPv6): deny"),
        ("10.0.0.2", "ns/a", "tcp/80", "ns/b -> ns/a TCP 80 (IPv4): allow"),
        ("ns/b", "ns/a", "tcp/80", "ns/b -> ns/a TCP 80 (IPv4): allow"),
        ("fd00::2", "fd00::1", "icmp", "ICMPV6 type 128 code 0 (IPv6): deny"),
    ],
)
def test_an_address_determines_the_family(
    given: list[str],
    src: str,
    dst: str,
    service: str,
    shown: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["eval", *given, src, dst, service]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert shown in first


@pytest.mark.parametrize(
    ("src", "dst", "service", "code"),
    [
        ("10.0.0.2", "fd00::1", "tcp/80", "PC0705"),
        ("ns/four", "fd00::2", "tcp/80", "PC0705"),
        ("fd00::2", "ns/four", "tcp/80", "PC0705"),
        ("fd00::2", "fd00::1", "icmpv4", "PC0706"),
        ("::ffff:10.0.0.9", "ns/a", "tcp/80", "PC0706"),
    ],
)
def test_families_that_disagree_are_errors(
    given: list[str],
    src: str,
    dst: str,
    service: str,
    code: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["eval", *given, src, dst, service]) == 2
    assert f"error[{code}]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ('{"src": "fd00::2", "dst": "ns/a", "protocol": "tcp", "port": 80, "family": 4}', "PC0706"),
        (
            '{"src": "ns/b", "dst": "10.0.0.1", "protocol": "tcp", "port": 80, "family": 6}',
            "PC0706",
        ),
        ('{"src": "ns/b", "dst": "ns/a", "protocol": "icmpv6", "family": 4}', "PC0706"),
    ],
)
def test_a_family_that_contradicts_an_address_is_an_error(
    given: list[str], row: str, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flows").write_text(row)
    assert run(["eval", *given, "--flows", str(tmp_path / "flows")]) == 2
    assert f"error[{code}]" in capsys.readouterr().err
