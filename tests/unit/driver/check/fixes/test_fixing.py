# SPDX-License-Identifier: Apache-2.0
"""The fixes of a check: which findings are fixed, which are left with a reason, and the proof."""

from dataclasses import replace
from pathlib import Path

import pytest

from policyc.compiler.driver.check.answers import CheckOptions
from policyc.compiler.driver.check.check import check
from policyc.compiler.driver.check.config import CheckConfig
from policyc.compiler.driver.check.fixes import fixing
from policyc.compiler.driver.check.fixes.edits import NotEditableError
from policyc.compiler.driver.check.fixes.file_text import file_text
from policyc.compiler.driver.check.fixes.fixing import Fixed, fix
from policyc.compiler.driver.check.input import ToCheck, read_to_check
from policyc.compiler.driver.compare.diff import DiffOptions, diff_sides
from policyc.compiler.driver.compile.compile import Progress, Read
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.yaml.sources import Content
from policyc.ir.errors import InternalError
from policyc.ir.results.diff import DiffResult
from policyc.verifier.redundancy.accidents import all_rules
from tests.unit.driver.check.checked import PODS, policy

HEAD = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: a, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
"""
TWICE = HEAD + "  ingress:\n  - ports: [{port: 80}]\n  - ports: [{port: 80}]\n"
DEAD = """\
  %s:
  # never
  - ports: [{port: 80}]
    %s:
    - podSelector:
        matchLabels: {a: b}
        matchExpressions: [{key: a, operator: DoesNotExist}]
"""
DATA = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data:
  a: |
    # policyc:ignore=PC2001 x
---
"""


def read(tmp_path: Path, text: str, cluster: str = "", name: str = "p.yaml") -> ToCheck:
    (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "c.yml").write_text(cluster)
    around = [str(tmp_path / "c.yml")] if cluster else []
    with Path("/dev/null").open("rb") as stdin:
        return read_to_check([str(tmp_path / name)], around, ReadOptions(), stdin)


def fixed(
    given: ToCheck, *, cluster: bool = False, config: CheckConfig | None = None, meant: bool = True
) -> Fixed:
    options = CheckOptions(not cluster)
    found = check(given, options, lambda _: None, config or CheckConfig())
    return fix(given, found, options, lambda _: None, is_cluster_meant=meant)


def new_text(found: Fixed) -> str | None:
    (file,) = found.plan.files
    return None if file.new is None else file.new.decode()


def reasons(found: Fixed) -> list[str]:
    return [each.reason for each in found.plan.left_out]


def test_one_of_two_equal_rules_is_removed(tmp_path: Path) -> None:
    found = fixed(read(tmp_path, TWICE))
    assert new_text(found) == TWICE.replace("  - ports: [{port: 80}]\n", "", 1)
    assert found.plan.n_fixes == 1 and not found.plan.left_out


@pytest.mark.parametrize("field", ["ingress", "egress"])
def test_the_last_rule_of_a_list_leaves_its_pods_isolated(tmp_path: Path, field: str) -> None:
    types = {"ingress": "Ingress", "egress": "Ingress, Egress"}[field]
    text = HEAD + DEAD % (field, {"ingress": "from", "egress": "to"}[field])
    found = fixed(read(tmp_path, text))
    assert new_text(found) == f"{HEAD}  policyTypes: [{types}]\n  {field}: []\n"


def test_json_gets_the_field_in_its_own_style(tmp_path: Path) -> None:
    text = (
        '{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"},'
        ' "spec": {"podSelector": {}, "egress": [{"to": [{"podSelector":'
        ' {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}'
        "}]}]}}"
    )
    new = new_text(fixed(read(tmp_path, text, name="p.json"))) or ""
    assert new.endswith('"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "egress": []}}')


def test_given_policy_types_stay(tmp_path: Path) -> None:
    text = HEAD + "  policyTypes: [Ingress]\n" + DEAD % ("ingress", "from")
    assert (
        new_text(fixed(read(tmp_path, text))) == f"{HEAD}  policyTypes: [Ingress]\n  ingress: []\n"
    )


def test_a_policy_is_removed_with_its_document_or_its_file(tmp_path: Path) -> None:
    deny, db = policy("a", "podSelector: {}"), policy("b", "podSelector: {matchLabels: {app: db}}")
    assert new_text(fixed(read(tmp_path, deny + db))) == deny
    (tmp_path / "q.yaml").write_text(deny)
    (tmp_path / "p.yaml").write_text(f"# about b\n{db}")
    (tmp_path / "c.yml").unlink()
    with Path("/dev/null").open("rb") as stdin:
        given = read_to_check([str(tmp_path)], [], ReadOptions(), stdin)
    assert new_text(fixed(given)) is None
    (tmp_path / "kustomization.yaml").write_text("resources: [p.yaml]\n")
    (reason,) = reasons(fixed(given))
    assert reason.endswith("kustomization.yaml lists the file, which holds nothing else")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  - ports: [{port: 80}]\n  -", "  - &r {ports: [{port: 80}]}\n  - *r #"),
        ("ingress:", "ingress: &list"),
        ("spec:", "spec: &spec"),
    ],
)
def test_anchored_rules_are_left_with_the_reason(tmp_path: Path, old: str, new: str) -> None:
    found = fixed(read(tmp_path, TWICE.replace(old, new)))
    assert not found.plan.files
    (left,) = found.plan.left_out
    assert left.reason == "the rule or its list has an anchor, an alias or a tag"
    assert left.place.span.line in (7, 8)


def test_objects_of_a_list_are_left(tmp_path: Path) -> None:
    items = "".join(f"  {line}\n" for line in TWICE.splitlines()).replace("  api", "- api", 1)
    found = fixed(read(tmp_path, f"apiVersion: v1\nkind: List\nitems:\n{items}"))
    assert reasons(found) == ["the object is not a document of its own"] and not found.plan.files


def test_other_sources_are_left(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(TWICE)
    with (tmp_path / "p.yaml").open("rb") as stdin:
        given = read_to_check(["-"], [], ReadOptions(), stdin)
    assert reasons(fixed(given)) == ["it was read from standard input"]
    (tmp_path / "link.yaml").symlink_to(tmp_path / "p.yaml")
    with Path("/dev/null").open("rb") as stdin:
        given = read_to_check([str(tmp_path / "link.yaml")], [], ReadOptions(), stdin)
    assert reasons(fixed(given)) == ["its file is a symbolic link"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("<kustomize overlays>", "a tool rendered it"),
        ("<helm chart>", "a tool rendered it"),
        ("git:HEAD:p.yaml", "it was read from a commit"),
    ],
)
def test_text_that_is_no_file_has_no_fix(name: str, reason: str) -> None:
    with pytest.raises(NotEditableError, match=reason):
        file_text(Content(name, TWICE.encode()))


def test_a_bundle_has_no_fix(tmp_path: Path) -> None:
    given = ToCheck(read(tmp_path, TWICE).read)
    assert reasons(fixed(given)) == ["a bundle cannot be edited"]


@pytest.mark.parametrize("odd", ["# a\r# b\n", '# "\\ud83d\\ude00"\n'])
def test_text_that_readers_place_differently_has_no_fix(tmp_path: Path, odd: str) -> None:
    found = fixed(read(tmp_path, TWICE + odd))
    assert not found.plan.files and "read in several ways" in reasons(found)[0]


def test_suppressed_findings_and_those_turned_off_are_not_fixed(tmp_path: Path) -> None:
    text = TWICE.replace("  - ports", "  # policyc:ignore=PC2002 a reason\n  - ports")
    text = text.replace("PC2002", "PC2003", 1)
    assert not fixed(read(tmp_path, text)).plan.files
    off = CheckConfig({"PC2003": None, "PC2002": None}, ".policyc.yaml")
    assert not fixed(read(tmp_path, TWICE), config=off).plan.files


def test_a_rule_beside_a_probable_mistake_is_left(tmp_path: Path) -> None:
    text = HEAD + "  ingress:\n  - from: [{podSelector: {}}]\n  - {}%s\n"
    found = fixed(read(tmp_path, text % ""))
    assert not found.plan.files and "PC2006" in reasons(found)[0]
    found = fixed(read(tmp_path, text % " # policyc:ignore=PC2006 meant"))
    assert found.plan.n_fixes == 1


def test_a_comment_that_ignores_nothing_is_removed(tmp_path: Path) -> None:
    text = HEAD + "  ingress:\n  - ports: [{port: 80}] # policyc:ignore=PC2001 why\n"
    assert new_text(fixed(read(tmp_path, text))) == text.replace(" # policyc:ignore=PC2001 why", "")
    found = fixed(read(tmp_path, DATA + TWICE.replace("  - ports: [{port: 80}]\n", "", 1)))
    assert reasons(found) == ["it is in a value, and not a comment"] and not found.plan.files


def test_byte_order_mark_and_line_ends_stay(tmp_path: Path) -> None:
    text = "\ufeff" + (TWICE + "  - ports: [{port: 81}]").replace("\n", "\r\n")
    expected = text.replace("  - ports: [{port: 80}]\r\n", "", 1)
    assert new_text(fixed(read(tmp_path, text))) == expected


def test_rules_without_effect_in_the_cluster_alone_need_its_name(tmp_path: Path) -> None:
    peer = "from: [{podSelector: {matchLabels: {app: gone}}}]"
    text = HEAD + f"  ingress:\n  - ports: [{{port: 80}}]\n  - {peer}\n"
    given = read(tmp_path, text, PODS)
    found = fixed(given, cluster=True)
    assert new_text(found) == text.replace(f"  - {peer}\n", "")
    assert found.universe.startswith("the given cluster")
    found = fixed(given, cluster=True, meant=False)
    assert not found.plan.files and "cluster alone" in reasons(found)[0]
    assert found.universe == "every pod, node and address that could exist"


def test_whole_policies_are_proved_for_every_pod_also_with_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    universes: list[bool] = []

    def spy(old: Read, new: Read, how: DiffOptions, progress: Progress) -> DiffResult:
        universes.append(how.is_symbolic)
        return diff_sides(old, new, how, progress)

    monkeypatch.setattr(fixing, "diff_sides", spy)
    gone = "from: [{podSelector: {matchLabels: {app: gone}}}]"
    rules = f"podSelector: {{}}, ingress: [{{ports: [{{port: 80}}]}}, {{{gone}}}]"
    text = policy("a", rules) + policy("b", rules.replace("}, {from", "}]##").partition("##")[0])
    found = fixed(read(tmp_path, text, PODS), cluster=True)
    assert found.plan.n_fixes == 2 and universes[-2:] == [True, False]


def test_a_fix_that_changes_a_verdict_is_an_internal_error(tmp_path: Path) -> None:
    """Each of two equal rules is redundant, but both together are needed."""
    given, options = read(tmp_path, TWICE), CheckOptions(True)
    found = check(given, options, lambda _: None)
    wrong = replace(found, together=tuple(all_rules(given.read.policies.policies)))
    with pytest.raises(InternalError, match="verdicts differ"):
        fix(given, wrong, options, lambda _: None)
