# SPDX-License-Identifier: Apache-2.0
"""The two sides of a comparison, from wherever they come; a pull request in a real repository."""

import io
import json
import subprocess
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.driver.compare.sides import (
    both_findings,
    read_sides,
    staged_changes,
)
from policyc.compiler.driver.compile.compile import (
    Inputs,
    read_inputs,
)
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.yaml.sources import sources_of
from policyc.ir.errors import InputError
from policyc.ir.policy import Policy, PolicySet

OPTIONS = ReadOptions()
SHOP = Path(__file__).parents[4] / "examples" / "online-shop"


def policy(name: str, port: int = 80) -> str:
    return (
        f"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"
        f"metadata: {{name: {name}, namespace: shop}}\n"
        f"spec: {{podSelector: {{}}, ingress: [{{ports: [{{port: {port}}}]}}]}}\n---\n"
    )


def staged(name: str, order: int) -> str:
    return (
        f"apiVersion: projectcalico.org/v3\nkind: StagedGlobalNetworkPolicy\n"
        f"metadata: {{name: {name}}}\n"
        f"spec: {{order: {order}, types: [Ingress], ingress: [{{action: Allow}}]}}\n---\n"
    )


def pod(name: str, address: str) -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop}}\n"
        f"spec: {{containers: [{{name: c}}]}}\n"
        f"status: {{phase: Running, podIP: {address}, podIPs: [{{ip: {address}}}]}}\n---\n"
    )


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def policies_of(policies: PolicySet) -> list[Policy]:
    return [each for tier in policies.tiers for each in tier.policies]


def failed(*arguments: str, **more: tuple[str, ...]) -> set[str]:
    with pytest.raises(InputError) as caught:
        read_sides(*arguments, OPTIONS, **more)  # type: ignore[arg-type, misc]
    return {finding.code for finding in caught.value.findings}


@pytest.fixture
def pull_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A branch that changes one policy and adds one, with an edit that is not committed yet."""
    work = tmp_path / "work"
    (work / "policies").mkdir(parents=True)
    git(work, "init", "-q", "-b", "main")
    (work / "policies" / "web.yaml").write_text(policy("web"))
    (work / "pods.yaml").write_text(pod("web-0", "10.0.0.1"))
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "policies")
    git(work, "switch", "-q", "-c", "more")
    (work / "policies" / "web.yaml").write_text(policy("web", 8080))
    git(work, "commit", "-q", "-a", "-m", "another port")
    (work / "policies" / "db.yaml").write_text(policy("db"))
    monkeypatch.chdir(work)
    return work


def test_git_main_and_the_work_tree_are_read_as_sides(pull_request: Path) -> None:
    old, new = read_sides("git:main", ".", OPTIONS)
    assert [p.name for p in policies_of(old.policies.policies)] == ["web"]
    assert [p.name for p in policies_of(new.policies.policies)] == ["db", "web"]
    assert old.policies.cluster_objects == new.policies.cluster_objects == {"Pod": 1}
    (web,) = policies_of(old.policies.policies)
    assert web.origin.span.file == "git:main:policies/web.yaml"
    assert web not in policies_of(new.policies.policies)


def test_the_diff_of_a_pull_request(pull_request: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "git:main", "git:main:"]) == 0
    assert run(["diff", "git:main", "."]) == 1
    shown = capsys.readouterr()
    assert "git:main:policies/web.yaml:3" in shown.out
    assert "policyc: old: ignored: give them with --cluster: 1 Pod" in shown.err
    assert run(["diff", "git:main", ".", "--cluster", "pods.yaml"]) == 1
    assert "shop/web-0" in capsys.readouterr().out
    assert run(["diff", "git:gone", "."]) == 2
    assert "error[PC0123]: there is no commit gone" in capsys.readouterr().err
    assert run(["diff", "git:main", ".", "--cluster-old", "pods.yaml"]) == 2


@pytest.mark.parametrize("new", ["policies", "policies/web.yaml", "git:new:policies"])
def test_a_commit_before_the_first_policy_is_a_side_without_policies(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    new: str,
) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "nothing yet")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "web.yaml").write_text(policy("web"))
    git(tmp_path, "switch", "-q", "-c", "new")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "the first policy")
    monkeypatch.chdir(tmp_path)
    assert run(["diff", "git:main", new]) == 1
    said = capsys.readouterr()
    assert "narrowed" in said.out and "warning[PC0124]" in said.err
    assert "this side has no policies" in said.err
    assert run(["diff", new, "git:main"]) == 1
    assert "widened" in capsys.readouterr().out
    assert failed("git:main:policies", new) == {"PC0124"}, "who names a path may have mistyped it"
    assert failed("git:main", "polices") == {"PC0101"}, "the path itself has to be there"


def test_commits_against_each_other_and_the_work_tree(
    pull_request: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = read_sides("git:main", "git:more:policies", OPTIONS)
    assert [len(policies_of(side.policies.policies)) for side in (old, new)] == [1, 1]
    assert old.policies.inputs[0].path == "git:main:policies/web.yaml"
    old, new = read_sides("policies", "git:HEAD", OPTIONS)
    assert [len(policies_of(side.policies.policies)) for side in (old, new)] == [2, 1]
    monkeypatch.chdir(pull_request / "policies")
    old, _ = read_sides("git:main", "git:more", OPTIONS)
    assert not old.policies.cluster_objects  # the working directory, not the whole repository


def test_both_sides_share_a_cluster_or_have_their_own(pull_request: Path, tmp_path: Path) -> None:
    old, new = read_sides("git:main", ".", OPTIONS, cluster=("pods.yaml",))
    assert old.cluster is not None
    assert old.cluster is new.cluster
    (tmp_path / "later.yaml").write_text(pod("web-0", "10.0.0.1") + pod("web-1", "10.0.0.2"))
    old, new = read_sides("git:main", ".", OPTIONS, cluster_old=("git:main:pods.yaml",),
                          cluster_new=(str(tmp_path / "later.yaml"),))  # fmt: skip
    assert old.cluster is not None
    assert new.cluster is not None
    assert [len(side.universe.endpoints) for side in (old.cluster, new.cluster)] == [1, 2]


def test_a_policy_in_the_cluster_must_belong_to_a_side(pull_request: Path) -> None:
    dump = pull_request.parent / "dump.yaml"
    dump.write_text(pod("web-0", "10.0.0.1") + policy("web"))
    old, new = read_sides("git:main", ".", OPTIONS, cluster=(str(dump),))
    assert old.cluster is new.cluster
    dump.write_text(pod("web-0", "10.0.0.1") + policy("web", 9999))
    assert failed("git:main", ".", cluster=(str(dump),)) == {"PC0309"}
    one = pull_request.parent / "one.yaml"
    one.write_text(pod("web-0", "10.0.0.1") + policy("web", 8080))
    assert failed("git:main", ".", cluster_old=(str(one),), cluster_new=(str(one),)) == {"PC0309"}


def test_options_that_do_not_go_together() -> None:
    assert failed("-", "-") == {"PC0906"}
    assert failed("-", "a", cluster=("-", "-")) == {"PC0906"}
    assert failed("a", "b", cluster=("c",), cluster_new=("d",)) == {"PC0907"}
    assert failed("a", "b", cluster_new=("d",)) == {"PC0908"}


def test_the_findings_of_both_sides_come_together(pull_request: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(policy("p").replace("podSelector", "podSelctor"))
    assert failed("git:gone:", str(bad)) == {"PC0123", "PC0202"}
    assert failed("git:gone:", str(bad), cluster=("nothing",)) == {"PC0123", "PC0202", "PC0101"}
    warns = tmp_path / "warns.yaml"
    warns.write_text(policy("p").replace("ingress: [{ports: [{port: 80}]}]", "egress: []"))
    old, new = read_sides(str(warns), str(warns), OPTIONS)
    assert len(old.findings) == len(both_findings(old, new)) > 0


def test_standard_input_is_a_side_or_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(policy("web"))
    stdin = io.BytesIO(policy("web", 81).encode())
    old, new = read_sides(str(tmp_path), "-", OPTIONS, stdin=stdin)
    assert old.policies.policies != new.policies.policies
    (span,) = [p.origin.span for p in policies_of(new.policies.policies)]
    assert span.file == "<stdin>"
    pods = io.BytesIO(pod("web-0", "10.0.0.1").encode())
    old, new = read_sides(str(tmp_path), str(tmp_path), OPTIONS, cluster=("-",), stdin=pods)
    assert old.cluster is not None
    assert len(old.cluster.universe.endpoints) == 1


def test_staged_policies_are_compared_separately(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(policy("web") + staged("a", 1) + staged("b", 1) + staged("same", 1))
    new.write_text(policy("web") + staged("b", 2) + staged("c", 1) + staged("same", 1))
    before, after = read_sides(str(old), str(new), OPTIONS)
    assert before.policies.policies == after.policies.policies
    changes = staged_changes(before, after)
    assert [item.policy.name for item in changes.added] == ["c"]
    assert [item.policy.name for item in changes.removed] == ["a"]
    assert [item.policy.name for _, item in changes.changed] == ["b"]
    assert not staged_changes(after, after)


def host(name: str, node: str) -> str:
    return (
        f"apiVersion: projectcalico.org/v3\nkind: HostEndpoint\nmetadata: {{name: {name}}}\n"
        f"spec: {{node: {node}, interfaceName: '*', expectedIPs: [192.0.2.1]}}\n---\n"
    )


def test_each_side_has_the_host_endpoints_that_it_gives(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(staged("a", 1))
    new.write_text(staged("a", 1) + host("eth", "node-1"))
    pods = io.BytesIO(pod("web-0", "10.0.0.1").encode())
    before, after = read_sides(str(old), str(new), OPTIONS, cluster=("-",), stdin=pods)
    assert before.cluster is not None
    assert after.cluster is not None
    assert [node.name for node in before.cluster.universe.nodes] == []
    assert [node.name for node in after.cluster.universe.nodes] == ["node-1"]
    assert before.cluster.universe.endpoints == after.cluster.universe.endpoints


def compiled(out: Path, *arguments: str) -> Path:
    assert run(["compile", *arguments, "-o", str(out)]) == 0
    return out


def test_a_bundle_is_a_side_like_its_input(tmp_path: Path) -> None:
    given = (str(SHOP / "policies"),), (str(SHOP / "cluster"),)
    out = compiled(tmp_path / "bundle", "-f", given[0][0], "--cluster", given[1][0])
    old, new = read_sides(str(out), given[0][0], OPTIONS, cluster=given[1])
    whole = read_inputs(Inputs(*(sources_of(each, io.BytesIO()) for each in given), OPTIONS))
    assert old.policies.policies == new.policies.policies == whole.policies.policies
    places = [str(p.origin.span) for p in policies_of(old.policies.policies)]
    expected = [f"bundle:{out}:{p.origin.span}" for p in policies_of(new.policies.policies)]
    assert places == expected
    assert old.policies.inputs[0].path == f"bundle:{out}:policies.json"


def test_a_bundle_holds_no_text_of_its_input(tmp_path: Path) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {key: hunter2}\n---\n"
    (tmp_path / "p.yaml").write_text(secret + policy("web") + staged("later", 3))
    out = compiled(tmp_path / "bundle", "-f", str(tmp_path / "p.yaml"))
    assert "hunter2" not in (out / "policies.json").read_text()
    old, new = read_sides(str(out), str(tmp_path / "p.yaml"), OPTIONS)
    assert [item.policy.name for item in old.policies.staged] == ["later"]
    assert not staged_changes(old, new)
    assert old.policies.policies == new.policies.policies


def test_a_changed_bundle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(policy("web"))
    out = compiled(tmp_path / "bundle", "-f", str(tmp_path / "p.yaml"))
    text = (out / "policies.json").read_text()
    (out / "policies.json").write_text(text.replace("80", "81"))
    assert failed(str(out), str(tmp_path / "p.yaml")) == {"PC0905"}
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["files"]["policies.json"]
    (out / "manifest.json").write_text(json.dumps(manifest))
    assert failed(str(out), str(tmp_path / "p.yaml")) == {"PC0905"}
    manifest["schema"] = "policyc.dev/bundle/v9"
    (out / "manifest.json").write_text(json.dumps(manifest))
    assert failed(str(out), str(tmp_path / "p.yaml")) == {"PC0905"}
