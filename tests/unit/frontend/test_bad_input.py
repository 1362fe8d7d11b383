# SPDX-License-Identifier: Apache-2.0
"""The command line reports every error with its position, and exits with 2."""

from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.frontend import PathSource, read_policies

HEAD = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web}\n"


def evaluate(path: Path, *more: str) -> int:
    return run(["eval", "-f", str(path), *more, "10.0.0.1", "10.0.0.2", "tcp/80"])


CASES = [
    (
        "a misspelt field",
        HEAD + "spec:\n  podSelector: {}\n  ingres: []\n",
        '6:3: error[PC0202]: unknown field "spec.ingres"',
        "did you mean `ingress`?",
    ),
    (
        "a string where a list is expected",
        HEAD + "spec:\n  ingress: all\n",
        '5:12: error[PC0201]: spec.ingress: expected a list, found the string "all"',
        "write it as a list",
    ),
    (
        "a boolean by YAML's rules where a string is expected",
        HEAD + "spec:\n  podSelector:\n    matchLabels:\n      canary: no\n",
        "7:15: error[PC0201]: spec.podSelector.matchLabels.canary: expected a string, "
        "found the boolean no",
        'quote it: "no"',
    ),
    (
        "an octal number where a string is expected",
        HEAD + "spec:\n  podSelector: {matchLabels: {mode: 0o17}}\n",
        "5:37: error[PC0201]: spec.podSelector.matchLabels.mode: expected a string, "
        "found the number 0o17",
        'quote it: "0o17"',
    ),
    (
        "an octal number where an integer is expected",
        HEAD + "spec:\n  ingress: [{ports: [{port: 80, endPort: 0o777}]}]\n",
        "5:42: error[PC0201]: spec.ingress[0].ports[0].endPort: expected an integer, "
        "found the number 0o777",
        "write it in plain decimal",
    ),
    (
        "a sexagesimal number where an integer is expected",
        HEAD + "spec:\n  ingress: [{ports: [{port: 80, endPort: 1:30}]}]\n",
        'expected an integer, found the string "1:30"',
        "",
    ),
    (
        "a number in quotes where an integer is expected",
        HEAD + "spec:\n  ingress: [{ports: [{port: 80, endPort: '90'}]}]\n",
        'expected an integer, found the string "90"',
        "remove the quotes: 90",
    ),
    (
        "an endPort below its port",
        HEAD + "spec:\n  ingress:\n  - ports:\n    - port: 8080\n      endPort: 8000\n",
        "8:16: error[PC0419]: spec.ingress[0].ports[0].endPort: Invalid value: 8080: "
        "must be greater than or equal to `port`",
        "7:13: note: the range starts here",
    ),
    (
        "a policy of an older group",
        "apiVersion: extensions/v1beta1\nkind: NetworkPolicy\nmetadata: {name: x}\n",
        "1:13: error[PC0303]: NetworkPolicy of extensions/v1beta1 is not supported",
        "NetworkPolicy is read from networking.k8s.io/v1",
    ),
    (
        "a policy without a group",
        "apiVersion: v1\nkind: NetworkPolicy\nmetadata: {name: x}\n",
        "1:13: error[PC0303]: NetworkPolicy of v1 is not supported",
        "",
    ),
    (
        "a kind of Calico's that has rules of its own",
        "apiVersion: projectcalico.org/v3\nkind: Profile\nmetadata: {name: x}\n",
        "2:7: error[PC0302]: ",
        "",
    ),
    (
        "a kind of Cilium's that steers traffic",
        "apiVersion: cilium.io/v2\nkind: CiliumEgressGatewayPolicy\nmetadata: {name: x}\n",
        "2:7: error[PC0304]: CiliumEgressGatewayPolicy of cilium.io/v2 is Cilium's",
        "",
    ),
    (
        "a misspelt kind of the policy group",
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolciy\nmetadata: {name: x}\n",
        "2:7: error[PC0305]: NetworkPolciy of networking.k8s.io/v1 looks like a misspelt policy",
        "did you mean `NetworkPolicy`?",
    ),
    (
        "a kind like a policy's in an unknown group",
        "apiVersion: example.com/v1\nkind: Networkpolicy\nmetadata: {name: x}\n",
        "2:7: error[PC0305]",
        "did you mean `NetworkPolicy`?",
    ),
    (
        "another project's network policy",
        "apiVersion: k8s.cni.cncf.io/v1beta1\nkind: MultiNetworkPolicy\nmetadata: {name: x}\n",
        "2:7: error[PC0302]",
        "",
    ),
    (
        "an unknown kind of a policy group",
        "apiVersion: cilium.io/v2\nkind: CiliumThing\nmetadata: {name: x}\n",
        "2:7: error[PC0302]",
        "",
    ),
    (
        "an unknown version of a policy group's other kind",
        "apiVersion: networking.k8s.io/v7\nkind: Ingress\nmetadata: {name: x}\n",
        "1:13: error[PC0303]: Ingress of networking.k8s.io/v7 is not supported",
        "",
    ),
    (
        "an unknown kind",
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\n",
        "2:7: error[PC0306]: unknown kind Widget of example.com/v1",
        "--allow-unknown-kinds Widget",
    ),
    (
        "an unknown version of a known kind",
        "apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: x}\n",
        "1:13: error[PC0307]: unknown version of Deployment: apps/v1beta1",
        "Deployment is read from apps/v1",
    ),
    (
        "an object without a kind",
        "apiVersion: networking.k8s.io/v1\nmetadata: {name: x}\n",
        "1:1: error[PC0301]: the object has no kind",
        "",
    ),
    (
        "an apiVersion that is a number",
        "apiVersion: 1\nkind: NetworkPolicy\n",
        "1:13: error[PC0201]: apiVersion: expected a string, found the number 1",
        "",
    ),
    ("a document that is no object", "- a\n", "1:1: error[PC0115]", ""),
    (
        "a name given twice",
        HEAD + "---\n" + HEAD,
        "7:18: error[PC0308]: NetworkPolicy default/web is given twice",
        "3:18: note: first given here",
    ),
    (
        "metadata without a name",
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: x}\n",
        "3:11: error[PC0401]: metadata.name: Required value",
        "",
    ),
    (
        "no metadata at all",
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n",
        "1:1: error[PC0401]: metadata.name: Required value",
        "",
    ),
    (
        "a bad policy inside a List",
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: networking.k8s.io/v1\n"
        "  kind: NetworkPolicy\n  metadata: {name: x}\n  spec: {podSelector: []}\n",
        "7:23: error[PC0201]: spec.podSelector: expected a mapping, found an empty list",
        "",
    ),
    (
        "items of a List that are no list",
        "apiVersion: v1\nkind: List\nitems: {}\n",
        "3:8: error[PC0201]: items: expected a list",
        "",
    ),
]


@pytest.mark.parametrize(
    ("text", "message", "hint"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_bad_input_is_an_error_at_its_place(
    text: str, message: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    assert evaluate(path) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert hint in shown
    assert str(path) in shown


def test_errors_of_all_files_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "b.yaml").write_text(HEAD + "spec: {ingress: [{ports: [{port: 0}]}]}\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x.yml").write_text("kind: [\n")
    (tmp_path / "a/y.json").write_text('{"kind": 3}')
    (tmp_path / "notes.txt").write_text("not read: [")
    assert evaluate(tmp_path) == 2
    shown = capsys.readouterr().err
    for code in ("PC0417", "PC0105", "PC0201"):
        assert code in shown
    assert "notes.txt" not in shown


def test_a_missing_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(tmp_path / "nowhere.yaml") == 2
    assert "error[PC0101]: no such file or directory" in capsys.readouterr().err


def test_a_directory_without_yaml_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(tmp_path) == 2
    assert "error[PC0103]: no file to read (*.yaml, *.yml, *.json) in" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "loop.yaml"
    path.symlink_to(path)  # permissions would not stop root
    assert evaluate(path) == 2
    assert "error[PC0102]: cannot read" in capsys.readouterr().err


def test_an_unknown_kind_can_be_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\n")
    assert evaluate(path, "--allow-unknown-kinds", "Widget") == 0
    assert "skipped: 1 Widget" in capsys.readouterr().err
    assert evaluate(path, "--allow-unknown-kinds", "Widget.example.com") == 0


@pytest.mark.parametrize("pattern", ["example.com", "*.example.com", "W?dg*", "*"])
def test_patterns_and_groups_allow_unknown_kinds(tmp_path: Path, pattern: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\n")
    assert evaluate(path, "--allow-unknown-kinds", pattern) == 0


@pytest.mark.parametrize("pattern", ["example", "com", "widget", "Widget.example", "*.com.example"])
def test_a_pattern_must_match_the_whole_name(tmp_path: Path, pattern: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\n")
    assert evaluate(path, "--allow-unknown-kinds", pattern) == 2


def test_an_unknown_kind_is_one_finding_with_the_number_of_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.yaml"
    widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\n---\n"
    path.write_text(widget * 3 + widget.replace("v1", "v2"))
    assert evaluate(path) == 2
    err = capsys.readouterr().err
    assert "p.yaml:2:7: error[PC0306]: unknown kind Widget of example.com/v1 (3 objects)" in err
    assert "p.yaml:14:7: error[PC0306]: unknown kind Widget of example.com/v2\n" in err


@pytest.mark.parametrize("kind", ["CiliumThing", "cilium.io", "*"])
def test_a_policy_kind_cannot_be_allowed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("apiVersion: cilium.io/v2\nkind: CiliumThing\nmetadata: {name: x}\n")
    assert evaluate(path, "--allow-unknown-kinds", kind) == 2


SKIPPED = [
    ("cert-manager.io/v1", "Certificate"),
    ("external-secrets.io/v1", "ExternalSecret"),
    ("gateway.networking.k8s.io/v1alpha3", "TLSRoute"),
    ("monitoring.coreos.com/v1", "ServiceMonitor"),
    ("source.toolkit.fluxcd.io/v1", "GitRepository"),
    ("s3.aws.upbound.io/v1beta1", "Bucket"),
    ("cilium.io/v2", "CiliumLoadBalancerIPPool"),
    ("cilium.io/v2alpha1", "CiliumL2AnnouncementPolicy"),
]
OF_OPERATORS = [
    ("kubernetes.crossplane.io/v1alpha2", "Object"),
    ("helm.fluxcd.io/v1", "HelmRelease"),
    ("loki.grafana.com/v1", "LokiStack"),
    ("velero.io/v1", "Restore"),
    ("operator.knative.dev/v1", "KnativeServing"),
]


@pytest.mark.parametrize(("version", "kind"), [*SKIPPED, *OF_OPERATORS])
def test_objects_of_harmless_groups_need_no_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, kind: str
) -> None:
    """A warning says that what operators make is not in the input."""
    path = tmp_path / "p.yaml"
    path.write_text(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n")
    assert evaluate(path) == 0
    err = capsys.readouterr().err
    assert f"skipped: 1 {kind}" in err
    assert ("warning[PC0136]" in err) == ((version, kind) in OF_OPERATORS)


@pytest.mark.parametrize(
    ("version", "kind", "code"),
    [
        ("networking.istio.io/v1", "Sidecar", "PC0306"),
        ("networking.istio.io/v1alpha3", "EnvoyFilter", "PC0306"),
        ("ec2.services.k8s.aws/v1alpha1", "SecurityGroup", "PC0306"),
        ("ec2.aws.upbound.io/v1beta1", "NetworkACL", "PC0306"),
        ("compute.cnrm.cloud.google.com/v1beta1", "ComputeFirewall", "PC0306"),
        ("networking.gke.io/v1", "EgressNATPolicy", "PC0306"),
        ("security.istio.io/v1", "AuthorizationPolicy", "PC0306"),
        ("networking.gke.io/v1alpha1", "FQDNNetworkPolicy", "PC0305"),
        ("cert-manager.io.example.com/v1", "Certificate", "PC0306"),
        ("notcert-manager.io/v1", "Certificate", "PC0306"),
        ("kustomize.config.k8s.io/v1beta1", "Kustomization", "PC0306"),
    ],
)
def test_a_kind_that_may_filter_connections_is_not_harmless(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, kind: str, code: str
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n")
    assert evaluate(path) == 2
    assert f"error[{code}]" in capsys.readouterr().err


def test_objects_that_create_others_are_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.yaml"
    release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: x}\n---\n"
    application = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: x}\n"
    path.write_text(release * 2 + application)
    assert evaluate(path) == 0
    err = capsys.readouterr().err
    assert err.count("PC0136") == 1 and "1 Application, 2 HelmRelease" in err


def test_a_kind_that_ends_in_list_is_a_list_only_of_known_kinds(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("apiVersion: ec2.aws.upbound.io/v1\nkind: BackupList\nspec: {}\n")
    assert evaluate(path) == 0
    path.write_text("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicyList\nspec: {}\n")
    assert evaluate(path) == 2


def test_known_other_kinds_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "apiVersion: v1\nkind: ConfigMap\ndata: {a: no}\n---\napiVersion: networking.k8s.io/v1\n"
        "kind: Ingress\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"
    )
    assert evaluate(path) == 0
    shown = capsys.readouterr().err
    assert "skipped: 1 ConfigMap, 1 Ingress" in shown
    assert "ignored without --cluster: 1 Pod" in shown


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "---\n# nothing\n---\n" + HEAD.replace("web", "db"),
        "apiVersion: v1\nkind: List\nitems:\n"
        + "".join(
            f"- {{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {n}}}}}\n"
            for n in ("web", "db")
        ),
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicyList\nmetadata: {resourceVersion: '1'}"
        "\nitems:\n- metadata: {name: web}\n- metadata: {name: db}\n",
        '{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicyList",\n'
        '"items": [{"metadata": {"name": "web"}}, {"metadata": {"name": "db"}}]}',
    ],
)
def test_several_objects_in_a_file_are_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    read = read_policies([PathSource(str(path))])
    assert [p.name for p in read.policies.tiers[0].policies] == ["db", "web"]
    assert len(read.inputs[0].sha256) == 64


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(HEAD)
    read = read_policies([PathSource(str(tmp_path)), PathSource(str(path))])
    assert len(read.inputs) == 1


def test_a_linked_directory_is_read_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/p.yaml").write_text(HEAD)
    (tmp_path / "real/loop").symlink_to(tmp_path / "real")
    (tmp_path / "a-link").symlink_to(tmp_path / "real")
    read = read_policies([PathSource(str(tmp_path))])
    assert [file.path for file in read.inputs] == [str(tmp_path / "real/p.yaml")]


def test_warnings_of_a_directory_given_twice_are_shown_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(HEAD + "spec: {egress: [{}]}\n")
    assert evaluate(tmp_path, "--cluster", str(tmp_path)) == 0
    assert capsys.readouterr().err.count("PC0503") == 1


def test_a_file_of_ten_megabytes_works(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    block = "# " + "x" * 77 + "\n"
    path.write_text(block * 125_000 + HEAD)
    assert path.stat().st_size > 10_000_000
    assert evaluate(path) == 0
