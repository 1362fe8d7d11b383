# SPDX-License-Identifier: Apache-2.0
"""`policyc report` as a user runs it: its page, its exit codes, and the file it leaves."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.command import policyc_here

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "online-shop"
CLOSED = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress:
    - from: [{podSelector: {matchLabels: {app: db}}}]  # </script><b>
"""
OPEN = CLOSED.replace("ingress:\n", "ingress:\n    - {}\n")
INTENT = 'never tcp/80 from ns.env == "dev" to pod.app == "web"\n'
OPAQUE = """\
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: names, namespace: shop}
spec:
  endpointSelector: {}
  egress:
    - toFQDNs: [{matchName: example.org}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`a.yaml` and `b.yaml`, which opens what the first one closes."""
    for name, text in (("a.yaml", CLOSED), ("b.yaml", OPEN), ("i.intent", INTENT)):
        (tmp_path / name).write_text(text)
    return tmp_path


def page(folder: Path, *words: str) -> tuple[int, str]:
    """The exit code, and the text of the page without its script."""
    done = policyc_here("report", *words, "-o", "r.html", cwd=folder)
    document = (folder / "r.html").read_text(encoding="utf-8")
    body = document[document.index("<body") : document.index('<script id="data"')]
    return done.returncode, html.unescape(re.sub(r"<[^>]+>", " ", body))


def test_a_change_has_its_rules_with_source(folder: Path) -> None:
    code, said = page(folder, "a.yaml", "b.yaml")
    assert code == 1
    assert "1 region opened" in said
    assert "changed NetworkPolicy" in re.sub(r"\s+", " ", said)
    assert "- {}" in said
    assert "name: web, namespace: shop" in said
    assert "replayed through the reference semantics" in said


def test_the_same_policies_are_equal(folder: Path) -> None:
    code, said = page(folder, "a.yaml", "a.yaml")
    assert code == 0
    assert "no flow's verdict differs" in said
    assert "Not decided" not in said


def test_an_outcome_that_may_pass_does_not_fail(folder: Path) -> None:
    assert page(folder, "a.yaml", "b.yaml", "--fail-on", "narrowed")[0] == 0


def test_a_broken_intent_of_one_set_is_named(folder: Path) -> None:
    code, said = page(folder, "b.yaml", "--intents", "i.intent")
    assert code == 1
    assert "1 intent: 1 broken" in said
    assert page(folder, "a.yaml", "--intents", "i.intent")[0] in (0, 1)


def test_one_set_without_a_cluster_has_no_matrix(folder: Path) -> None:
    code, said = page(folder, "a.yaml")
    assert code == 0
    assert "Policies" in said
    assert "Matrix" not in said


def test_one_set_with_a_cluster_has_its_connections(folder: Path) -> None:
    code, said = page(folder, str(SHOP / "policies"), "--cluster", str(SHOP / "cluster"))
    assert code == 0
    assert "pairs of groups may talk" in said
    assert "Coverage" in said


def test_an_opaque_rule_is_an_open_question(folder: Path) -> None:
    (folder / "c.yaml").write_text(OPAQUE)
    code, said = page(folder, "a.yaml", "c.yaml", "--unsupported", "deny")
    assert "Not decided, or not shown" in said
    assert "shop/names" in said
    assert code in (1, 3)


def test_wrong_input_replaces_an_older_page(folder: Path) -> None:
    assert page(folder, "a.yaml", "a.yaml")[0] == 0
    (folder / "a.yaml").write_text("kind: NetworkPolicy\n")
    code, said = page(folder, "a.yaml", "a.yaml")
    assert code == 2
    assert "nothing was compared" in said
    assert "no flow's verdict differs" not in said


def test_nothing_is_left_of_a_file_that_cannot_be_written(folder: Path) -> None:
    (folder / "full").mkdir()
    done = policyc_here("report", "a.yaml", "b.yaml", "-o", "none/r.html", cwd=folder)
    assert done.returncode == 2
    assert not list(folder.glob("**/*.html"))


def test_the_clusters_of_two_sides_need_two_sides(folder: Path) -> None:
    done = policyc_here("report", "a.yaml", "--cluster-old", "c", "-o", "r.html", cwd=folder)
    assert done.returncode == 2
    assert "need OLD and NEW" in done.stderr


def test_a_commit_is_quoted(folder: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "a.yaml"], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    shutil.copy(folder / "b.yaml", folder / "a.yaml")
    code, said = page(folder, "git:HEAD", "a.yaml")
    assert code == 1
    assert "git:HEAD:a.yaml:3" in said
    assert said.count("kind: NetworkPolicy") >= 2


def test_standard_input_is_quoted(folder: Path) -> None:
    done = policyc_here("report", "a.yaml", "-", cwd=folder, stdin=OPEN)
    assert done.returncode == 1
    assert "&lt;/script&gt;&lt;b&gt;" in done.stdout
    assert "</script><b>" not in done.stdout


def test_comments_suppress_findings_of_the_page(folder: Path) -> None:
    assert "PC2002" in page(folder, "b.yaml")[1]
    text = OPEN.replace("    - from", "    # policyc:ignore=PC2002 kept for audits\n    - from")
    (folder / "b.yaml").write_text(text)
    assert "suppressed, kept for audits: PC2002" in page(folder, "b.yaml")[1]
