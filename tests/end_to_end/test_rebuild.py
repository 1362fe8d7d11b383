# SPDX-License-Identifier: Apache-2.0
"""The short way of `policyc compile --cache` after a change: the same bytes, or the whole way."""

import copy
import errno
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from policyc.backends.ebpf_c import clang
from policyc.compiler.cli.main import run
from policyc.compiler.driver.cache import build_cache
from policyc.compiler.driver.rebuild import incremental
from policyc.compiler.driver.rebuild.incremental import Rebuilt
from policyc.ir.decision import DecisionIR
from tests.bench import synthetic
from tests.slices import one_in

Policies = list[dict[str, Any]]
Ways = list[Rebuilt | None]


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    """The result of each attempted incremental build."""
    found: Ways = []
    honest = incremental.rebuild

    def noted(*arguments: Any) -> Rebuilt | None:
        found.append(honest(*arguments))
        return found[-1]

    monkeypatch.setattr(incremental, "rebuild", noted)
    return found


class Project:
    """Policies and a cluster in a directory, compiled with a cache and without."""

    def __init__(self, folder: Path, size: int, seed: int = 1) -> None:
        self.folder = folder
        self.policies, cluster = synthetic.objects(size, seed)
        self.options: list[str] = []
        self.write("c.yaml", cluster)
        self.save()

    def write(self, name: str, documents: Policies) -> None:
        text = yaml.dump_all(documents, Dumper=yaml.CSafeDumper, sort_keys=False)
        (self.folder / name).write_text(text)

    def save(self) -> None:
        self.write("p.yaml", self.policies)

    def run(self, out: str, *more: str) -> int:
        given = ["-f", str(self.folder / "p.yaml"), "--cluster", str(self.folder / "c.yaml")]
        return run(["compile", *given, "-o", str(self.folder / out), *self.options, *more])

    def files(self, out: str) -> dict[str, bytes]:
        bundle = self.folder / out
        files = (path for path in bundle.rglob("*") if path.is_file())
        return {str(path.relative_to(bundle)): path.read_bytes() for path in files}

    def check(self) -> None:
        """Both ways write the same bytes."""
        assert self.run("with", "--cache", str(self.folder / "cache")) == 0
        assert self.run("without") == 0
        assert self.files("with") == self.files("without")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    found = Project(tmp_path, 12)
    found.check()
    return found


def rules(policy: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(key, policy["spec"][key]) for key in ("ingress", "egress") if policy["spec"].get(key)]


def edit(rng: random.Random, policies: Policies) -> None:
    """One random change of one policy, mostly with attributes that rules already read."""
    at = rng.randrange(len(policies))
    policy = policies[at] = copy.deepcopy(policies[at])
    key, its_rules = rng.choice(rules(policy))
    rule = rng.choice(its_rules)
    other = rng.choice(policies)
    match rng.randrange(8):
        case 0:
            rule["ports"].append(
                {"protocol": rng.choice(("TCP", "UDP")), "port": rng.randrange(1, 99)}
            )
        case 1:
            rule["ports"] = rng.choice(([{"port": 1, "endPort": 9000}], [{"protocol": "SCTP"}]))
        case 2:
            its_rules.append(copy.deepcopy(rule))
        case 3 if len(its_rules) > 1:
            its_rules.remove(rule)
        case 4:
            policy["metadata"]["annotations"] = {"moved": "what follows", "to": "other lines"}
        case 5:
            policy["spec"]["podSelector"] = other["spec"]["podSelector"]
        case 6:
            side = "from" if key == "ingress" else "to"
            peers = [peer for _, some in rules(other) for one in some for peer in one.get(side, [])]
            rule[side] = rule[side] + peers[:1]
        case _:
            its_rules.reverse()


@pytest.mark.parametrize("seed", one_in(4, range(4)))
def test_random_edits(tmp_path: Path, ways: Ways, seed: int) -> None:
    rng = random.Random(seed)
    project = Project(tmp_path, 30, seed)
    project.options = ["--rule-counters", rng.choice(("bytes", "packets", "none"))]
    project.check()
    for _ in range(6):
        for _ in range(rng.choice((1, 1, 1, 3))):
            edit(rng, project.policies)
        project.save()
        project.check()
    taken = [way for way in ways if way is not None]
    assert len(taken) >= 3, "the short way is hardly ever taken"
    assert any(way.rows_anew for way in taken)
    assert any(way.rows_anew < way.rows for way in taken)


@pytest.mark.slow
def test_random_edits_of_many(tmp_path: Path, ways: Ways) -> None:
    for seed in range(100, 130):
        folder = tmp_path / str(seed)
        folder.mkdir()
        rng = random.Random(seed)
        project = Project(folder, rng.choice((5, 60, 150)), seed)
        project.check()
        for _ in range(25):
            edit(rng, project.policies)
            project.save()
            project.check()
    assert sum(way is not None for way in ways) > 300


def test_without_a_cluster(tmp_path: Path, ways: Ways) -> None:
    project = Project(tmp_path, 12)
    arguments = ["compile", "-f", str(tmp_path / "p.yaml")]
    cache = ["--cache", str(tmp_path / "cache")]
    assert run([*arguments, "-o", str(tmp_path / "with"), *cache]) == 0
    edit_port(project.policies[3])
    project.save()
    assert run([*arguments, "-o", str(tmp_path / "with"), *cache]) == 0
    assert run([*arguments, "-o", str(tmp_path / "without")]) == 0
    assert project.files("with") == project.files("without")
    assert ways[-1] is not None


@pytest.mark.slow
def test_a_rebuild_works_with_the_llvm_backend(tmp_path: Path, ways: Ways) -> None:
    project = Project(tmp_path, 12)
    project.options = ["--backend", "llvm"]
    project.check()
    edit_port(project.policies[3])
    project.save()
    project.check()
    assert ways[-1] is not None


def edit_port(policy: dict[str, Any]) -> None:
    for _, its_rules in rules(policy):
        for rule in its_rules:
            rule["ports"][0]["port"] += 7


def test_a_rebuild_reads_only_the_changed_file_of_a_directory(tmp_path: Path, ways: Ways) -> None:
    """Only the file that changed is taken apart; names of files may look like members of JSON."""
    policies, cluster = synthetic.objects(12)
    folder = tmp_path / "p.yaml"
    folder.mkdir()
    project = Project.__new__(Project)
    project.folder, project.policies, project.options = tmp_path, policies, []
    project.write("c.yaml", cluster)

    def save() -> None:
        for at, policy in enumerate(policies):
            project.write(f'p.yaml/{at:02}{{"line":1,"rule":2,"id":3}}.yaml', [policy])

    save()
    project.check()
    policies[2]["metadata"]["annotations"] = {"moved": "down"}
    its_rules = next(some for _, some in rules(policies[2]))
    its_rules.append(copy.deepcopy(its_rules[0]))
    save()
    project.check()
    assert ways[-1] is not None


def change(policies: Policies, how: str) -> None:
    """A change that the short way does not know."""
    first = policies[0]
    key, its_rules = rules(first)[0]
    side = "from" if key == "ingress" else "to"
    match how:
        case "a new selector":
            its_rules[0][side].append({"podSelector": {"matchLabels": {"app": "nobody-said"}}})
        case "a new block":
            its_rules[0][side].append({"ipBlock": {"cidr": "192.0.2.0/24"}})
        case "a new named port":
            its_rules[0]["ports"].append({"port": "metrics"})
        case "a new subject":
            first["spec"]["podSelector"] = {"matchLabels": {"tier": "web"}}
        case "another name":
            first["metadata"]["name"] = "renamed"
        case "a policy more":
            policies.append(copy.deepcopy(first))
            policies[-1]["metadata"]["name"] = "second"
        case "a policy less":
            del policies[0]
        case "another order":
            policies.reverse()


@pytest.mark.parametrize(
    "how",
    [
        "a new selector",
        pytest.param("a new block", marks=pytest.mark.slow),
        "a new named port",
        pytest.param("a new subject", marks=pytest.mark.slow),
        pytest.param("another name", marks=pytest.mark.slow),
        "a policy more",
        "a policy less",
        pytest.param("another order", marks=pytest.mark.slow),
    ],
)
def test_some_changes_need_a_full_build(project: Project, ways: Ways, how: str) -> None:
    change(project.policies, how)
    project.save()
    project.check()
    assert ways[0] is None


def test_a_rebuild_reports_the_same_error(
    project: Project, ways: Ways, capsys: pytest.CaptureFixture[str]
) -> None:
    before = project.files("with")
    project.policies[4]["spec"]["ingres"] = []
    project.save()
    capsys.readouterr()
    assert project.run("with", "--cache", str(project.folder / "cache")) == 2
    said = capsys.readouterr().err
    assert project.run("without") == 2
    assert capsys.readouterr().err == said
    assert "ingres" in said
    assert project.files("with") == before
    assert ways == [None]


def test_a_rebuild_reports_the_same_warning(
    project: Project, ways: Ways, capsys: pytest.CaptureFixture[str]
) -> None:
    _, its_rules = rules(project.policies[4])[0]
    its_rules[0]["ports"] = [{"port": 0x50, "endPort": 0x50, "protocol": "TCP"}] * 2
    key = "from" if "from" in its_rules[0] else "to"
    its_rules[0][key] = [{"podSelector": {"matchLabels": {"app": "-"}}}]
    project.save()
    capsys.readouterr()
    code = project.run("with", "--cache", str(project.folder / "cache"))
    said = capsys.readouterr().err
    assert code == project.run("without")
    assert capsys.readouterr().err == said
    assert said
    assert ways == [None]


def without_types(policy: dict[str, Any]) -> None:
    """Omit policyTypes of a policy with egress rules, which then isolates for ingress as well."""
    policy["spec"].pop("policyTypes")
    policy["spec"]["egress"] = policy["spec"].pop("ingress", None) or policy["spec"]["egress"]
    for rule in policy["spec"]["egress"]:
        rule["to"] = rule.pop("from", None) or rule.get("to", [])


def said_both_ways(project: Project, capsys: pytest.CaptureFixture[str]) -> str:
    """Standard error of an incremental and a full build: both are equal, and so are the bundles."""
    capsys.readouterr()
    assert project.run("with", "--cache", str(project.folder / "cache")) == 0
    said = capsys.readouterr().err
    assert project.run("without") == 0
    assert capsys.readouterr().err == said
    assert project.files("with") == project.files("without")
    return said


def test_warnings_of_unchanged_documents_have_their_current_lines(
    tmp_path: Path, ways: Ways, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, 12)
    for at in (3, 7):
        without_types(project.policies[at])
    project.save()
    said = said_both_ways(project, capsys)
    assert said.count("warning[") == 2
    for at in (5, 7, 3):
        edit_port(project.policies[at])
        project.policies[at]["metadata"]["annotations"] = {"moves": "what follows", str(at): "x"}
        project.save()
        now = said_both_ways(project, capsys)
        assert now.count("warning[") == 2
        assert ways[-1] is not None
    assert now != said, "the lines are others"
    assert len([way for way in ways if way]) == 3


def test_a_warning_comes_and_goes_with_its_document(
    tmp_path: Path, ways: Ways, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, 12)
    for at in (3, 7):
        without_types(project.policies[at])
    project.policies[7]["spec"]["policyTypes"] = ["Ingress", "Egress"]
    project.save()
    assert said_both_ways(project, capsys).count("warning[") == 1
    for types, warnings in ((3, 0), (7, 1)):  # said and not said mean the same
        for at in (3, 7):
            project.policies[at]["spec"].pop("policyTypes", None)
            if at == types or not warnings:
                project.policies[at]["spec"]["policyTypes"] = ["Ingress", "Egress"]
        project.save()
        assert said_both_ways(project, capsys).count("warning[") == warnings
    assert len(ways) == 2
    assert None not in ways


def test_findings_about_all_documents_need_a_full_build(
    project: Project, ways: Ways, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record is left only where each finding is that of a document alone."""
    from policyc.compiler.driver.rebuild import findings as said

    honest = said.read_again
    project.folder.joinpath("cache").rename(project.folder / "old")
    without_types(project.policies[3])
    project.save()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(said, "read_again", lambda *given: replace(honest(*given), said={}))
        said_both_ways(project, capsys)
    edit_port(project.policies[5])
    project.save()
    said_both_ways(project, capsys)
    assert ways == [], "no record was left"


def test_another_cluster_needs_a_full_build(project: Project, ways: Ways) -> None:
    path = project.folder / "c.yaml"
    text = path.read_text()
    path.write_text(text.replace("tier: web", "tier: db", 1))
    assert path.read_text() != text
    project.check()
    assert ways == [None]


@pytest.mark.parametrize(
    "around",
    one_in(2, [("", "...\n"), ("%YAML 1.1\n---\n", ""), ("--- # the first\n", ""), ("", "\r\n")]),
)
def test_files_that_are_not_taken_apart(
    project: Project, ways: Ways, around: tuple[str, str]
) -> None:
    """Where there may be other ends of documents, or of lines."""
    edit_port(project.policies[5])
    project.save()
    path = project.folder / "p.yaml"
    path.write_bytes(path.read_text().join(around).encode())
    project.check()
    assert ways == [None]


def test_a_run_after_an_incremental_build_uses_the_same_record(
    project: Project, ways: Ways
) -> None:
    """The short way leaves no record: changes since the last whole run add up, and are few."""
    for policy in project.policies[:5]:
        edit_port(policy)
        project.save()
        project.check()
    assert all(way is not None for way in ways)


def test_a_wrong_incremental_decision_causes_a_full_build(
    project: Project, ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest: Callable[..., DecisionIR] = incremental.decide

    def wrong(*arguments: Any) -> DecisionIR:
        decision = honest(*arguments)
        return replace(decision, ingress=decision.egress, egress=decision.ingress)

    monkeypatch.setattr(incremental, "decide", wrong)
    for policy in project.policies:
        edit_port(policy)
    project.save()
    project.check()
    assert ways == [None], "the rows that changed are proved before anything is written"


def test_an_unwritten_cache_is_reported(
    project: Project,
    ways: Ways,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As in a full build (PC0914): the new proofs cannot be stored."""
    for _, its_rules in rules(project.policies[2]):
        its_rules[0]["ports"] = [
            {"port": p, "protocol": t} for p in (1, 5, 9) for t in ("UDP", "TCP")
        ]
    project.save()

    honest = build_cache._new_file

    def full(folder: Path) -> tuple[int, Path]:
        if folder.name == build_cache.FORMAT:  # the cache is tried when it is opened
            return honest(folder)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(build_cache, "_new_file", full)
    assert project.run("with", "--cache", str(project.folder / "cache")) == 0
    assert ways[0] is not None
    assert "PC0914" in capsys.readouterr().err


def test_a_rebuild_stays_incremental_when_other_documents_move(
    project: Project, ways: Ways
) -> None:
    """The last policy does not move with them."""
    text = (project.folder / "p.yaml").read_text()
    other = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n"
    first, rest = text.split("---\n", 1)
    path = project.folder / "p.yaml"
    path.write_text(f"{first}{other}---\n{rest}---\n")
    project.check()
    path.write_text(f"# moved\n{first}{other}---\n{rest}---\n")
    project.check()
    assert ways[-1] is not None


def test_two_files_of_one_name_leave_no_record(tmp_path: Path, ways: Ways) -> None:
    policies, cluster = synthetic.objects(2)
    project = Project.__new__(Project)
    project.folder, project.policies, project.options = tmp_path, policies, []
    (tmp_path / "p.yaml").mkdir()
    project.write("c.yaml", cluster)
    for at, name in enumerate((b"p.yaml/\xff.yaml", b"p.yaml/\\xff.yaml")):
        text = yaml.safe_dump(policies[at])
        (tmp_path / name.decode(errors="surrogateescape")).write_text(text)
    project.check()
    edit_port(policies[1])
    (tmp_path / "p.yaml" / "\\xff.yaml").write_text(yaml.safe_dump(policies[1]))
    project.check()
    assert ways == []


def test_a_stream_is_read_once(project: Project, ways: Ways) -> None:
    """A full build cannot read a FIFO, or standard input by its path, a second time."""
    path = project.folder / "p.yaml"
    text = path.read_text()
    path.unlink()
    os.mkfifo(path)
    for _ in range(2):
        writer = threading.Thread(target=path.write_text, args=(text,))
        writer.start()
        assert project.run("with", "--cache", str(project.folder / "cache")) == 0
        writer.join(60)
        assert not writer.is_alive()
        assert project.files("with") == project.files("without")
    assert ways == [None, None]


@pytest.mark.slow
def test_standard_input_by_its_path(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["compile", "-f", "/dev/stdin", "--cluster", str(project.folder / "c.yaml")]
    given += ["-o", str(project.folder / "with"), "--cache", str(project.folder / "cache")]
    command = [sys.executable, "-m", "policyc.compiler.cli", *given]
    path = project.folder / "p.yaml"
    for _ in range(2):
        with path.open("rb") as file:
            subprocess.run(command, stdin=file, check=True, capture_output=True)
        subprocess.run(command, input=path.read_bytes(), check=True, capture_output=True)
    same = {
        name
        for name, data in project.files("with").items()
        if project.files("without")[name] == data
    }
    assert {"plan.json", "policy.bpf.o"} < same


def test_a_rebuild_without_policies_is_an_error(tmp_path: Path, ways: Ways) -> None:
    project = Project(tmp_path, 2)
    (tmp_path / "p.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    cache = ("--cache", str(tmp_path / "cache"))
    assert project.run("with", "--allow-empty", *cache) == 0
    assert project.run("with", *cache) == 2
    assert ways == []


def test_aliases_are_counted_over_the_file(project: Project, ways: Ways) -> None:
    path = project.folder / "p.yaml"
    text = path.read_text()
    alias = "metadata:\n  labels: &x {a: b}\n  annotations: *x\n"
    for number in (1, 2):
        path.write_text(text.replace("metadata:\n", alias, number))
        project.check()
    assert ways == [None, None]


def test_policies_in_the_cluster_are_read_with_it(project: Project, ways: Ways) -> None:
    """They must equal the given policies, in any spelling of their kind."""
    path = project.folder / "c.yaml"
    one = yaml.safe_dump(project.policies[3]).replace(
        "kind: NetworkPolicy", 'kind: "Network\\x50olicy"'
    )
    path.write_text(f"{path.read_text()}---\n{one}")
    project.check()
    edit_port(project.policies[3])
    project.save()
    assert project.run("with", "--cache", str(project.folder / "cache")) == 2
    assert ways == [None, None]


def test_an_input_error_is_reported_before_a_missing_tool(
    project: Project, ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.policies[4]["spec"]["ingres"] = []
    project.save()
    monkeypatch.setenv("POLICYC_CLANG", "/nowhere/clang")
    clang.find_tool.cache_clear()
    try:
        assert project.run("with", "--cache", str(project.folder / "cache")) == 2
    finally:
        clang.find_tool.cache_clear()


def test_a_rebuild_without_an_affected_row_stops_the_run(
    project: Project, ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = incremental.affected

    def fewer(*arguments: Any) -> incremental.Affected:
        found = honest(*arguments)
        return replace(found, rows=found.rows[1:])

    monkeypatch.setattr(incremental, "affected", fewer)
    before = project.files("with")
    for policy in project.policies[:6]:
        edit_port(policy)
    project.save()
    assert project.run("with", "--cache", str(project.folder / "cache")) == 3
    assert project.files("with") == before


def test_a_damaged_record_is_ignored(project: Project, ways: Ways) -> None:
    edit_port(project.policies[1])
    project.save()
    for path in (project.folder / "cache" / "v1").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-1])
    project.check()
    assert ways == [None]
