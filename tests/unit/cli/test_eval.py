# SPDX-License-Identifier: Apache-2.0
"""`policyc eval`: flows in, verdicts out, by the reference semantics."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from policyc.compiler.cli.main import run

POLICIES = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: client}}}]
    ports: [{port: http}]
  - from: [{ipBlock: {cidr: 10.1.0.0/16, except: [10.1.2.0/24]}}]
"""
CLUSTER = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{ports: [{name: http, containerPort: 8080}]}]}
status: {podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: shop, labels: {app: client}}
status: {podIP: 10.0.0.2}
---
apiVersion: v1
kind: Pod
metadata: {name: starting, namespace: shop}
status: {phase: Pending}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: client-v2, namespace: shop}
spec: {template: {metadata: {labels: {app: client}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: other, namespace: shop}
spec: {template: {metadata: {labels: {app: other}}}}
"""


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    (tmp_path / "p.yaml").write_text(POLICIES)
    (tmp_path / "c.yaml").write_text(CLUSTER)
    return ["-f", str(tmp_path / "p.yaml"), "--cluster", str(tmp_path / "c.yaml")]


def ask(given: list[str], *flow: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["eval", *given, "--format", "json", *flow]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_an_allowed_flow_names_the_rule_and_its_place(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ask(given, "shop/client", "shop/web", "tcp/8080", capsys=capsys)
    assert answer == {
        "egress": {"verdict": "allow", "rule": {"kind": "default-allow", "why": "not isolated"}},
        "ingress": {
            "verdict": "allow",
            "rule": {
                "kind": "rule",
                "policy": "shop/web",
                "path": "spec.ingress[0]",
                "file": given[1],
                "line": 7,
                "column": 5,
            },
        },
        "verdict": "allow",
    }


def test_a_denied_flow_names_the_isolating_policies(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ask(given, "10.1.2.3", "shop/web", "TCP/8080", capsys=capsys)
    assert answer["verdict"] == answer["ingress"]["verdict"] == "deny"
    place = {"policy": "shop/web", "file": given[1], "line": 3, "column": 18}
    assert answer["ingress"]["rule"] == {"kind": "default-deny", "policies": [place]}


def test_text_shows_the_place(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", *given, "10.1.1.1", "10.0.0.1", "udp/53"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("10.1.1.1 -> shop/web UDP 53 (IPv4): allow\n")
    assert f"rule shop/web spec.ingress[1] ({given[1]}:9:5)" in shown


@pytest.mark.parametrize(
    ("flow", "verdict"),
    [
        (("10.1.1.1", "shop/web", "icmp/8/0"), "allow"),
        (("10.1.1.1", "shop/web", "icmp"), "allow"),
        (("2001:db8::1", "shop/web", "icmp6/128/0"), "deny"),
        (("2001:db8::1", "fd00::1", "icmp"), "deny"),
        (("10.1.1.1", "shop/web", "47"), "allow"),
        (("10.1.1.1", "shop/web", "6/80"), "allow"),
        (("shop/client", "shop/web", "Sctp/8080"), "deny"),
        (("10.0.0.2", "10.0.0.1", "tcp/8080"), "allow"),
        (("shop/client-v2", "shop/web", "tcp/8080"), "allow"),
        (("shop/client-v2", "shop/web", "tcp/8081"), "unknown"),
        (("shop/other", "shop/web", "tcp/8080"), "unknown"),
        (("shop/web", "shop/other", "tcp/1"), "allow"),
        (("shop/other", "shop/other", "tcp/1"), "allow"),
    ],
)
def test_protocols_and_ends_as_people_write_them(
    flow: tuple[str, str, str],
    verdict: str,
    given: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ask(given, *flow, capsys=capsys)["verdict"] == verdict


def test_an_unknown_verdict_has_a_reason(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", *given, "shop/other", "shop/web", "tcp/8080"]) == 0
    captured = capsys.readouterr()
    assert "(IPv4): unknown" in captured.out
    assert "the verdict depends on the address of shop/other, which is not known" in captured.err


BAD_FLOWS = [
    (("shop/wbe", "shop/web", "tcp/1"), "src shop/wbe is not a pod of the cluster", "`shop/web`"),
    (
        ("web", "shop/web", "tcp/1"),
        "src web is neither namespace/pod, node/NAME nor an address",
        "",
    ),
    (("10.0.0", "shop/web", "tcp/1"), "neither namespace/pod, node/NAME nor an address", ""),
    (("shop/starting", "shop/web", "tcp/1"), "src shop/starting is live but has no address", ""),
    (("2001:db8::1", "shop/client", "tcp/1"), "no address family in common", ""),
    (("10.0.0.9", "2001:db8::1", "tcp/1"), "no address family in common", ""),
    (("10.0.0.9", "shop/web", "tcp/0"), "port 0 is not in 1 to 65535", ""),
    (("10.0.0.9", "shop/web", "tcp/70000"), "port 70000 is not in 1 to 65535", ""),
    (("10.0.0.9", "shop/web", "tcp"), "tcp needs a port", "tcp/443"),
    (("10.0.0.9", "shop/web", "tcp/http"), "`port` is not a number: 'http'", ""),
    (("10.0.0.9", "shop/web", "tpc/80"), "unknown protocol 'tpc'", "`tcp`"),
    (("10.0.0.9", "shop/web", "47/80"), "protocol 47 has no ports", ""),
    (("10.0.0.9", "shop/web", "tcp/80/81"), "is not PROTOCOL[/PORT]", ""),
    (("10.0.0.9", "shop/web", "icmp6"), "is not an IPv6 address", ""),
    (("shop/client", "shop/web", "icmp6"), "shop/client is live but has no IPv6 address", ""),
    (("10.0.0.9", "shop/web", "icmp/300/0"), "ICMP type and code are 0 to 255", ""),
]


@pytest.mark.parametrize(("flow", "message", "hint"), BAD_FLOWS)
def test_a_bad_flow_is_bad_input(
    flow: tuple[str, str, str],
    message: str,
    hint: str,
    given: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["eval", *given, *flow]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and hint in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-f", "p"],
        ["-f", "p", "a", "b"],
        ["-f", "p", "a", "b", "c", "--flows", "x"],
        ["a", "b", "tcp/1"],
        ["-f", "p", "--scenarios", "x"],
        ["-f", "-", "--flows", "-"],
    ],
)
def test_wrong_usage_is_exit_2(arguments: list[str]) -> None:
    assert run(["eval", *arguments]) == 2


FLOWS_CSV = """\
src,dst,protocol,port,icmp_type,icmp_code,family
shop/client,shop/web,TCP,8080,,,
shop/client, shop/web, tcp, 80,,,
10.1.1.1,shop/web,icmp,,8,0,
2001:db8::1,shop/web,tcp,80,,,6
"""
FLOWS_JSON = """\
{"src": "shop/client", "dst": "shop/web", "protocol": "TCP", "port": 8080}

{"src": "shop/client", "dst": "shop/web", "protocol": 6, "port": "80", "note": "ignored"}
{"src": "10.1.1.1", "dst": "shop/web", "protocol": "icmp", "icmp_type": 8, "icmp_code": 0}
{"src": "2001:db8::1", "dst": "shop/web", "protocol": "tcp", "port": 80, "family": 6}
"""


@pytest.mark.parametrize("text", [FLOWS_CSV, FLOWS_JSON])
def test_a_file_of_flows_is_answered_in_order(
    text: str, given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flows").write_text(text)
    assert run(["eval", *given, "--flows", str(tmp_path / "flows"), "--format", "json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    verdicts = [json.loads(line)["verdict"] for line in lines]
    assert verdicts == ["allow", "deny", "allow", "deny"]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("src,dst,protocol\na/b,c/d\n", ":2:1", "the header has 3 columns"),
        ("src,dst\na/b,c/d\n", ":1:1", "`protocol` is missing"),
        ("src,dst,protocol,prot\n1.2.3.4,1.2.3.5,tcp,1\n", ":1:1", "unknown field `prot`"),
        ('{"src": "1.2.3.4"}\n{x\n', ":2:1", "not JSON"),
        ('{"src": 1, "dst": "1.2.3.4", "protocol": "tcp"}\n', ":1:1", "`src` is not text"),
        (
            '{"src": "1.2.3.4", "dst": "1.2.3.4", "protocol": "tcp", "port": 1, "family": 5}',
            ":1:1",
            "`family` is 4 or 6",
        ),
    ],
)
def test_a_bad_file_of_flows_names_the_line(
    text: str,
    place: str,
    message: str,
    given: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "flows"
    path.write_text(text)
    assert run(["eval", *given, "--flows", str(path)]) == 2
    shown = capsys.readouterr().err
    assert message in shown and f"{path}{place}" in shown


def policy(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {"podSelector": {}, **spec},
    }


def pod(name: str, ip: str | None) -> dict[str, Any]:
    status = {"podIP": ip} if ip else {"phase": "Pending"}
    metadata = {"name": name, "namespace": "shop", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}


def scenario(name: object, objects: list[object], *flows: object) -> str:
    return json.dumps({"id": name, "objects": objects, "flows": list(flows)})


def answers(
    lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, Any]]:
    path = tmp_path / "scenarios.jsonl"
    path.write_text("\n".join(lines) + "\n")
    assert run(["eval", "--scenarios", str(path)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def flow(src: str, dst: str, port: int = 80) -> dict[str, Any]:
    return {"src": src, "dst": dst, "protocol": "TCP", "port": port}


def test_each_scenario_gives_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = [pod("a", "10.0.0.1"), pod("b", "10.0.0.2"), pod("c", None)]
    lines = [
        scenario(1, [policy(), *pods], flow("shop/a", "shop/b"), flow("shop/b", "203.0.113.9")),
        scenario("bad object", [policy(ingres=[]), *pods], flow("shop/a", "shop/b")),
        "{not json",
        "[]",
        '{"id": 1, "id": 2}',
        '{"id": "objects missing", "objects": 3}',
        "[" * 100_000,
        scenario("bad flow", pods, flow("shop/a", "shop/x"), flow("shop/a", "shop/c"), 7),
        scenario(None, [], flow("10.0.0.1", "10.0.0.2")),
    ]
    found = answers(lines, tmp_path, capsys)
    assert [line["id"] for line in found] == [
        1,
        "bad object",
        None,
        None,
        None,
        "objects missing",
        None,
        "bad flow",
        None,
    ]
    assert [result["verdict"] for result in found[0]["results"]] == ["deny", "allow"]
    assert found[0]["diagnostics"] == []
    for line in found[1:7]:
        assert line["results"] == [] and line["diagnostics"]
    assert found[1]["diagnostics"][0]["path"] == "objects[0].spec.ingres"
    assert found[1]["diagnostics"][0]["file"] == "<scenario bad object>"
    assert found[7]["results"] == [None, None, None]
    messages = [diagnostic["message"] for diagnostic in found[7]["diagnostics"]]
    assert [message.split(":")[0] for message in messages] == ["flows[0]", "flows[1]", "flows[2]"]
    assert found[8]["results"][0]["verdict"] == "allow"


def test_an_unknown_verdict_of_a_scenario_has_a_diagnostic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m", "namespace": "shop"}}
    blocks = policy(ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}])
    line = scenario(1, [blocks, pod("a", "10.0.0.1"), manifest], flow("shop/m", "shop/a"))
    (answer,) = answers([line], tmp_path, capsys)
    assert answer["results"][0]["verdict"] == "unknown"
    assert answer["results"][0]["ingress"] == {"verdict": "unknown", "rule": None}
    assert "address of shop/m" in answer["diagnostics"][0]["message"]


@pytest.mark.parametrize(
    ("agent_node", "web_node", "verdict", "reasons"),
    [
        ("n1", "n1", "allow", []),
        ("n1", "n2", "deny", []),
        ("n1", "", "unknown", ["the node of shop/web"]),
        ("", "n1", "unknown", ["the node of shop/agent"]),
    ],
)
def test_the_verdict_depends_on_whether_two_pods_share_a_node(
    agent_node: str,
    web_node: str,
    verdict: str,
    reasons: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    agent = pod("agent", "192.0.2.1") | {"spec": {"hostNetwork": True, "nodeName": agent_node}}
    web = pod("web", "10.0.0.1") | {"spec": {"nodeName": web_node}}
    line = scenario(1, [policy(), agent, web], flow("shop/agent", "shop/web"))
    (answer,) = answers([line], tmp_path, capsys)
    assert answer["results"][0]["verdict"] == verdict
    messages = [diagnostic["message"] for diagnostic in answer["diagnostics"]]
    assert [reason in message for reason, message in zip(reasons, messages, strict=True)] == [
        True for _ in reasons
    ]


def test_a_dual_stack_pod_uses_the_family_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dual = pod("d", None) | {"status": {"podIPs": [{"ip": "10.0.0.9"}, {"ip": "fd00::9"}]}}
    only6 = pod("six", "fd00::6")
    allows6 = policy(ingress=[{"from": [{"ipBlock": {"cidr": "fd00::/8"}}]}])
    other = pod("e", None) | {"status": {"podIPs": [{"ip": "10.0.0.8"}, {"ip": "fd00::8"}]}}
    line = scenario(
        1,
        [allows6, dual, other, only6],
        flow("shop/e", "shop/d"),
        flow("shop/e", "shop/d") | {"family": 6},
        flow("shop/six", "shop/d"),
        flow("shop/six", "shop/d") | {"family": 4},
    )
    (answer,) = answers([line], tmp_path, capsys)
    verdicts = [result and result["verdict"] for result in answer["results"]]
    assert verdicts == ["deny", "allow", "allow", None]


def test_scenarios_come_from_standard_input_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = scenario("x", [], flow("10.0.0.1", "10.0.0.2"))
    stream = io.TextIOWrapper(io.BytesIO(f"{line}\n\n{line}".encode()))
    monkeypatch.setattr("sys.stdin", stream)
    assert run(["eval", "--scenarios", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_policies_come_from_standard_input_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = POLICIES.replace("port: http", "port: 0").encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(bad)))
    assert run(["eval", "-f", "-", "10.0.0.1", "10.0.0.2", "tcp/80"]) == 2
    assert "<stdin>:8:20: error[PC0417]" in capsys.readouterr().err
