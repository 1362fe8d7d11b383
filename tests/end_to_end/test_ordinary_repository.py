# SPDX-License-Identifier: Apache-2.0
"""A repository that has more than manifests: every command passes over what is no Kubernetes object."""

from collections.abc import Callable
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from tests.commits import first_commit

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]}
"""
OTHERS = {
    ".github/workflows/ci.yml": "on: push\njobs: {test: {runs-on: linux, steps: [{run: make}]}}\n",
    ".pre-commit-config.yaml": "repos: []\n",
    "docker-compose.yml": "services: {db: {image: postgres}}\n",
    "package.json": '{"name": "shop", "version": "1.0.0"}\n',
    "app/list.json": "[1, 2]\n",
    "chart/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\nappVersion: '2'\n",
    "chart/values.yaml": "replicas: 1\nimage: {kind: small}\n",
    "stack.yml": "Resources: {Queue: !Ref Other}\n",
}
TEMPLATE = POLICY.replace("name: db", "name: {{ .Release.Name }}")
QUOTED_TEMPLATE = POLICY.replace("name: db", 'name: "{{ .Release.Name }}"')
KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: shop
resources: [policies/db.yaml]
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def policyc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Runs a command in a repository with one commit on `main`."""
    monkeypatch.chdir(tmp_path)
    files = {
        **OTHERS,
        "policies/db.yaml": POLICY,
        "chart/templates/policy.yaml": TEMPLATE,
        "chart/templates/quoted.yaml": QUOTED_TEMPLATE,
        "kustomization.yaml": KUSTOMIZATION,
    }
    for name, text in files.items():
        write(tmp_path / name, text)
    first_commit()

    def runs(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(list(arguments))
        shown = capfd.readouterr()
        return code, shown.out, shown.err

    return runs


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_diff_compares_a_commit_with_the_work_tree(policyc: Run, tmp_path: Path) -> None:
    code, out, err = policyc("diff", "git:main", ".")
    assert (code, out.partition(":")[0]) == (0, "equal")
    assert err.count(f"skipped: {len(OTHERS)} files without a Kubernetes object") == 2
    (tmp_path / "policies/db.yaml").write_text(POLICY.replace("app: db", "app: cache"))
    assert policyc("diff", "git:main", ".")[0] == 1


@pytest.mark.parametrize(
    "command",
    [("check", "-f", "."), ("check", "-f", "git:main"), ("compile", "-f", ".", "-o", "b")],
)
def test_one_line_counts_skipped_files(policyc: Run, command: tuple[str, ...]) -> None:
    code, _, err = policyc(*command)
    assert code == 0
    assert err.count("note[PC0133]") == 1
    assert err.count("warning[PC0134]: skipped: 2 files of a template") == 1
    assert err.count("warning[PC0135]") == 1 and "kustomize build" in err


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("resources: [db.yaml]\nimages: [{name: a, newTag: b}]\n", ""),
        ("resources:\n", ""),
        (
            "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches: [a]\n",
            " with patches",
        ),
        ("patches: []\nnamePrefix: a-\n", " with namePrefix"),
        (
            "configurations: [c.yaml]\ncommonAnnotations: {a: b}\n",
            " with commonAnnotations, configurations",
        ),
    ],
)
def test_a_warning_names_the_fields_by_which_a_kustomization_changes_objects(
    policyc: Run, tmp_path: Path, text: str, fields: str
) -> None:
    (tmp_path / "kustomization.yaml").write_text(text)
    code, _, err = policyc("check", "-f", ".")
    assert code == 0
    assert err.count("warning[PC0135]") == 1
    assert f"not built: 1 kustomization{fields}\n" in err


def test_one_warning_counts_the_kustomizations(policyc: Run, tmp_path: Path) -> None:
    write(tmp_path / "other/kustomization.yml", "namespace: other\n")
    write(tmp_path / "plain/kustomization.yaml", "resources: []\n")
    err = policyc("check", "-f", ".")[2]
    assert err.count("PC0135") == 1 and "not built: 3 kustomizations with namespace" in err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("policies/kustomization.yaml", POLICY.replace("name: db", "name: other")),
        ("policies/x:kustomization.yaml", POLICY.replace("name: db", "name: other")),
    ],
)
def test_a_policy_in_a_file_that_is_named_as_a_kustomization_is_read(
    policyc: Run, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    code, out, _ = policyc("diff", "git:main", ".")
    assert code == 0 and "1 policy added" in out


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (POLICY.encode("utf-16"), "PC0104"),
        (
            b'{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","kind":"NetworkPolicy"}',
            "PC0107",
        ),
        (b'{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","a":"\xff"}', "PC0104"),
    ],
)
def test_an_object_that_other_readers_accept_is_not_skipped(
    policyc: Run, tmp_path: Path, data: bytes, code: str
) -> None:
    (tmp_path / "policies/other.json").write_bytes(data)
    assert f"error[{code}]" in policyc("check", "-f", ".")[2]


def test_broken_files_that_mention_no_type_are_skipped(policyc: Run, tmp_path: Path) -> None:
    write(tmp_path / ".vscode/settings.json", '{"a": 1,\n// a comment\n"b": 2,}\n')
    assert policyc("check", "-f", ".")[0] == 0


def test_a_workflow_with_an_indented_kind_is_skipped(policyc: Run, tmp_path: Path) -> None:
    text = "on: push\njobs:\n  a: {kind: b, run: '${{ github.sha }}'}\n"
    text += "  b:\n    kind: c\n    apiVersion: d\n"
    (tmp_path / ".github/workflows/ci.yml").write_text(text)
    code, _, err = policyc("check", "-f", ".")
    assert code == 0 and f"skipped: {len(OTHERS)} files without a Kubernetes object" in err


@pytest.mark.parametrize(
    "on", ["on: push\n", "'on': '{{ a }}'\n", "1: '{{ a }}'\n", "? {a: b}\n: c\n"]
)
def test_an_odd_field_name_does_not_hide_an_object(policyc: Run, tmp_path: Path, on: str) -> None:
    (tmp_path / "policies/wrong.yaml").write_text(on + POLICY)
    assert policyc("check", "-f", ".")[0] == 2


@pytest.mark.parametrize(
    ("wrong", "missing"),
    [
        (POLICY.replace("apiVersion", "apiVerion"), "apiVersion"),
        (POLICY.replace("apiVersion", "api_version"), "apiVersion"),
        (POLICY.replace("kind", "knd"), "kind"),
        (POLICY.replace("apiVersion: networking.k8s.io/v1\n", ""), "apiVersion"),
        ("[{'apiVersion': 'v1', 'kind': 'Pod'}]\n", "found a list"),
    ],
)
def test_an_incomplete_object_is_an_error(
    policyc: Run, tmp_path: Path, wrong: str, missing: str
) -> None:
    (tmp_path / "policies/wrong.yaml").write_text(wrong)
    code, _, err = policyc("check", "-f", ".")
    assert code == 2
    assert "policies/wrong.yaml:1:1: error[" in err and missing in err


def test_braces_do_not_hide_a_file_that_others_read(policyc: Run, tmp_path: Path) -> None:
    """API clients take the last of two equal fields, so the file may not pass for a template."""
    twice = POLICY.replace("kind: NetworkPolicy", "kind: NetworkPolicy  # {{\nkind: NetworkPolicy")
    (tmp_path / "policies/wrong.yaml").write_text(twice)
    code, _, err = policyc("check", "-f", ".")
    assert code == 2 and "policies/wrong.yaml:3:1: error[PC0107]" in err


def test_a_syntax_error_in_an_object_is_an_error(policyc: Run, tmp_path: Path) -> None:
    (tmp_path / "policies/wrong.yaml").write_text(POLICY.replace("{name: db", "{name: db]"))
    code, _, err = policyc("check", "-f", ".")
    assert code == 2 and "policies/wrong.yaml:3:" in err


def test_an_object_beside_something_else_in_one_file_is_an_error(
    policyc: Run, tmp_path: Path
) -> None:
    (tmp_path / "policies/db.yaml").write_text(f"{POLICY}---\nreplicas: 1\n")
    code, _, err = policyc("check", "-f", ".")
    assert code == 2 and "policies/db.yaml:6:1: error[PC0301]" in err


@pytest.mark.parametrize("name", ["package.json", "chart/Chart.yaml", "kustomization.yaml"])
def test_a_file_that_is_named_must_have_objects(policyc: Run, name: str) -> None:
    code, _, err = policyc("check", "-f", name)
    assert code == 2 and f"{name}:" in err
