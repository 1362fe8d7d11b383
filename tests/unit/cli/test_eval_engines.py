# SPDX-License-Identifier: Apache-2.0
"""`policyc eval --engine`: compiled code prints the bytes of the semantics, or leaves it to them."""

import json
import random
import sys
from pathlib import Path

import pytest

from policyc.compiler.cli import eval_batches
from policyc.compiler.cli.main import run
from policyc.compiler.driver.eval import native_flows

ENOUGH = native_flows._LEAST_WORK // 20
"""So many flows are worth compiling for, however few policies there are."""
POLICIES = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress, Egress]
  ingress:
  - from: [{podSelector: {matchLabels: {app: client}}}]
    ports: [{port: http}, {port: 9000, endPort: 9010}]
  - from: [{ipBlock: {cidr: 10.1.0.0/16, except: [10.1.2.0/24]}}]
  - from: [{ipBlock: {cidr: "2001:db8::/32"}}]
    ports: [{protocol: UDP, port: 53}]
  egress:
  - to: [{namespaceSelector: {}}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: default-deny, namespace: shop}
spec: {podSelector: {}, policyTypes: [Ingress]}
"""
CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}, {type: InternalIP, address: "fd01::1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {nodeName: n1, containers: [{ports: [{name: http, containerPort: 8080}]}]}
status: {podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: shop, labels: {app: client}}
spec: {nodeName: n2}
status: {podIPs: [{ip: 10.0.0.2}, {ip: "fe80::2"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: agent, namespace: shop, labels: {app: client}}
spec: {nodeName: n1, hostNetwork: true}
status: {podIP: 192.0.2.1}
---
apiVersion: v1
kind: Pod
metadata: {name: lost-agent, namespace: shop, labels: {app: client}}
spec: {nodeName: n2, hostNetwork: true}
status: {podIP: 192.0.2.2}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: template, namespace: shop}
spec: {template: {metadata: {labels: {app: web}}}}
"""
ENDS4 = ("shop/web", "10.0.0.1", "shop/client", "10.0.0.2", "shop/agent", "shop/lost-agent",
         "shop/template", "node/n1", "192.0.2.1", "10.1.1.1", "10.1.2.3", "203.0.113.9")  # fmt: skip
ENDS6 = (
    "shop/web",
    "fd00::1",
    "fe80::2",
    "node/n1",
    "fd01::1",
    "2001:db8::9",
    "ff02::1",
    "shop/template",
)
FORMS = ("json", "text")


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    (tmp_path / "p.yaml").write_text(POLICIES)
    (tmp_path / "c.yaml").write_text(CLUSTER)
    return ["-f", str(tmp_path / "p.yaml"), "--cluster", str(tmp_path / "c.yaml")]


def rows(count: int) -> list[dict[str, str]]:
    """Flows of both families, of every protocol, also with unknown ends."""
    rng = random.Random(7)
    found = []
    for _ in range(count):
        family = rng.choice((4, 6))
        ends = ENDS4 if family == 4 else ENDS6
        row = {"src": rng.choice(ends), "dst": rng.choice(ends), "family": str(family)}
        kind = rng.random()
        if kind < 0.7:
            port = rng.choice(("80", "8080", "9000", "9011", "53", "65535"))
            row |= {"protocol": rng.choice(("tcp", "UDP", "sctp", "6")), "port": port}
        elif kind < 0.9:
            row |= {"protocol": "icmp", "icmp_type": rng.choice(("8", "133", "135", "137", "138"))}
        else:
            row |= {"protocol": "47"}
        if rng.random() < 0.3 and "port" in row:
            row["source_port"] = "40000"
        found.append(row)
    return found


FIELDS = ("src", "dst", "protocol", "port", "icmp_type", "icmp_code", "family", "source_port")


def as_csv(flows: list[dict[str, str]]) -> str:
    """CSV with quotes, spaces and blank lines, as people write it."""
    lines = [", ".join(FIELDS)]
    for at, flow in enumerate(flows):
        cells = [flow.get(name, "") for name in FIELDS]
        if at % 5 == 0:
            cells[0] = f'"{cells[0]}"'
        if at % 7 == 0:
            cells[1] = f"  {cells[1]} "
        lines.append(",".join(cells))
        if at % 11 == 0:
            lines.append("")
    return "\n".join(lines) + "\n"


def said(
    given: list[str], file: Path, engine: str, form: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    code = run(["eval", *given, "--flows", str(file), "--engine", engine, "--format", form])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def without_notes(text: str) -> str:
    """Standard error without the messages of `--engine native`."""
    return "".join(line for line in text.splitlines(True) if "reference semantics" not in line)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("style", ["csv", "json lines"])
def test_both_engines_print_the_same(
    given: list[str], form: str, style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flows = rows(400)
    file = tmp_path / "flows"
    lines = [json.dumps(flow | {"family": int(flow["family"])}) for flow in flows]
    file.write_text(as_csv(flows) if style == "csv" else "\n".join(lines))
    code, out, err = said(given, file, "native", form, capsys)
    assert (code, out, without_notes(err)) == said(given, file, "semantics", form, capsys)
    assert code == 0
    assert "unknown" in out  # ends of which not all is known were among them
    assert "flows are evaluated by the reference semantics" in err
    left = int(err.split("policyc: ")[1].split(" of ")[0])
    assert 0 < left < 200  # and most flows were not left to the semantics


def test_large_files_are_compiled_by_default(
    given: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "flows"
    file.write_text("src,dst,protocol,port\n" + "10.1.1.1,shop/web,tcp,80\n" * ENOUGH)
    compiled = []
    real = native_flows.evaluate_natively
    monkeypatch.setattr(
        eval_batches, "evaluate_natively", lambda *a: compiled.append(1) or real(*a)
    )
    wanted = said(given, file, "semantics", "json", capsys)
    assert not compiled
    assert said(given, file, "auto", "json", capsys) == wanted
    assert compiled
    compiled.clear()
    file.write_text("src,dst,protocol,port\n" + "10.1.1.1,shop/web,tcp,80\n" * 10)
    said(given, file, "auto", "json", capsys)
    assert not compiled


@pytest.mark.parametrize(
    "text",
    [
        "src,dst,protocol,port\nshop/web,shop/nobody,tcp,80\n",
        "src,dst,protocol,port\nshop/web,10.0.0.2,tcp\n",
        'src,dst,protocol,port\nshop/web,10.0.0.2,tcp,80\nshop/web,"10.0.0.2,tcp,80\n',
        "src,dst,protocol,port\nshop/web,10.0.0.2,tcp,70000\n\nshop/web,10.0.0.2,tpc,70000\n",
        "src,dst,protocol,prt\nshop/web,10.0.0.2,tcp,70000\n",
        "src,dst,protocol,port,family\nshop/client,10.0.0.1,tcp,80,6\n",
        "src,dst,protocol\n",
        "",
        "shop/web,10.0.0.2,tcp,80\n",
        '{"src": "shop/web", "dst": "10.0.0.2", "protocol": "tcp"}\n',
        '{"src": "shop/web", "dst": "10.0.0.2", "protocol": "icmp"\n',
        '[{"src": "shop/web"}]',
    ],
)
def test_all_engines_report_the_same_errors(
    given: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "flows"
    file.write_text(text)
    found = said(given, file, "native", "text", capsys)
    assert found == said(given, file, "semantics", "text", capsys)
    assert found[0] == 2
    assert not found[1]


def test_all_engines_report_the_same_warnings(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "flows"
    flow = {"src": "10.1.1.1", "dst": "shop/web", "protocol": "tcp", "port": 80, "comment": "why"}
    file.write_text(json.dumps(flow))
    found = said(given, file, "native", "text", capsys)
    assert found == said(given, file, "semantics", "text", capsys)
    assert "comment" in found[2]


def test_flows_that_tables_cannot_decide_use_the_semantics(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = Path(given[1])
    policy.write_text(
        POLICIES
        + "---\napiVersion: projectcalico.org/v3\nkind: NetworkPolicy\n"
        + "metadata: {name: from-high-ports, namespace: shop}\n"
        + "spec: {selector: app == 'web', ingress: [{action: Allow, protocol: TCP, "
        + "source: {ports: ['1024:65535']}}]}\n"
    )
    file = tmp_path / "flows"
    file.write_text(as_csv(rows(60)))
    code, out, err = said(given, file, "native", "json", capsys)
    assert (code, out, without_notes(err)) == said(given, file, "semantics", "json", capsys)
    assert "the reference semantics evaluates every flow" in err
    assert "source ports" in err


@pytest.mark.parametrize("missing", ["llvmlite", "numpy"])
def test_without_its_dependency_native_fails_and_auto_uses_another_engine(
    given: list[str],
    missing: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "flows"
    file.write_text("src,dst,protocol,port\n" + "10.1.1.1,shop/web,tcp,80\n" * ENOUGH)
    wanted = said(given, file, "semantics", "json", capsys)
    for name in [m for m in sys.modules if m == missing or m.startswith(f"{missing}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert said(given, file, "auto", "json", capsys) == wanted
    code, out, err = said(given, file, "native", "json", capsys)
    assert (code, out) == (3, "")
    assert f"native evaluation needs {missing}" in err
    assert "pip install llvmlite numpy" in err


def test_the_engine_is_for_files_of_flows(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", *given, "--engine", "native", "shop/client", "shop/web", "tcp/80"]) == 2
    assert "--engine needs --flows" in capsys.readouterr().err
