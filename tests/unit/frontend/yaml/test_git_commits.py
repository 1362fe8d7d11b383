# SPDX-License-Identifier: Apache-2.0
"""Files of a commit as input: what is read, what is an error, and that nothing is written."""

import os
import subprocess
from pathlib import Path

import pytest

from policyc.compiler.frontend.read import read_policies
from policyc.compiler.frontend.yaml.git_commits import git_source
from policyc.compiler.frontend.yaml.sources import GitSource
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: NAME, namespace: shop}
spec: {podSelector: {}, policyTypes: [Ingress]}
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def commit(folder: Path, message: str = "more") -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    (folder / "policies").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "policies" / "a.yaml").write_text(POLICY.replace("NAME", "a"))
    (folder / "policies" / "read me.txt").write_text("not: [YAML")
    commit(folder)
    monkeypatch.chdir(folder)
    return folder


def names(source: GitSource) -> list[str]:
    read = read_policies([source])
    return [item.policy.name for item in read.lowered]


def finding(source: GitSource) -> Diagnostic:
    with pytest.raises(InputError) as caught:
        read_policies([source])
    (only,) = caught.value.findings
    assert only.hint or only.code in ("PC0103", "PC0105")
    return only


def test_the_commit_is_read_and_not_the_work_tree(repository: Path) -> None:
    (repository / "policies" / "a.yaml").write_text("changed")
    (repository / "policies" / "b.yaml").write_text("new")
    read = read_policies([git_source("git:main")])
    (only,) = read.lowered
    assert str(only.policy.origin.span) == "git:main:policies/a.yaml:3:18"
    assert [file.path for file in read.inputs] == ["git:main:policies/a.yaml"]


def test_paths_count_from_the_root_or_from_the_working_directory(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "policies")
    for text in ("git:main", "git:main:", "git:main:policies", "git:main:policies/a.yaml",
                 "git:main:./a.yaml", "git:main:../policies", "git:HEAD:."):  # fmt: skip
        assert names(git_source(text)) == ["a"], text
    assert git_source("git:main").path == "policies"
    assert git_source("git:main:").path == ""
    assert git_source("git:main:./a.yaml").path == "policies/a.yaml"


def test_without_a_path_git_uses_the_path_of_the_other_side(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert git_source("git:main", str(repository / "policies")).path == "policies"
    assert git_source("git:main", "repository/policies/a.yaml").path == "policies/a.yaml"
    assert names(git_source("git:main", "repository/policies/gone.d/../a.yaml")) == ["a"]
    with pytest.raises(InputError, match="not in the work tree of a git repository"):
        git_source("git:main", str(tmp_path))


def test_reading_a_commit_writes_nothing(repository: Path) -> None:
    def state() -> dict[str, int]:
        return {str(p): p.stat().st_mtime_ns for p in repository.rglob("*")}

    os.utime(repository / "policies" / "a.yaml", (1, 1))  # `git status` would refresh the index
    before = state()
    assert names(git_source("git:main")) == ["a"]
    assert state() == before


@pytest.mark.parametrize("text", ["git:", "git::policies", "git:-x", "git:--help:a"])
def test_a_source_needs_a_revision(repository: Path, text: str) -> None:
    with pytest.raises(InputError, match="expected git:REV or git:REV:PATH"):
        git_source(text)


def test_a_missing_path_or_revision_is_reported(repository: Path) -> None:
    assert finding(git_source("git:nowhere:policies")).code == "PC0123"
    assert "no commit nowhere" in finding(git_source("git:nowhere")).message
    assert finding(git_source("git:main:policy")).code == "PC0124"
    assert finding(git_source("git:main:policies/a.yaml/b")).code == "PC0124"
    assert finding(git_source("git:main:pol*")).code == "PC0124"  # a path is no pattern
    with pytest.raises(InputError, match="has no"):
        git_source("git:main:../elsewhere")
    with pytest.raises(InputError, match="has no"):
        git_source("git:main:/etc")


def test_git_sources_need_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert finding(git_source("git:main:policies")).code == "PC0122"
    with pytest.raises(InputError, match="not in the work tree"):
        git_source("git:main")


def test_a_directory_without_yaml_is_an_error(repository: Path) -> None:
    (repository / "docs").mkdir()
    (repository / "docs" / "page.md").write_text("# page")
    commit(repository)
    assert finding(git_source("git:main:docs")).code == "PC0103"


def test_a_named_file_is_read_whatever_its_ending(repository: Path) -> None:
    assert finding(git_source("git:main:policies/read me.txt")).code == "PC0105"


def test_submodules_are_not_passed_over(repository: Path, tmp_path: Path) -> None:
    git(repository, "update-index", "--add", "--cacheinfo", "160000," + "1" * 40 + ",vendor")
    git(repository, "commit", "-q", "-m", "a submodule")
    assert finding(git_source("git:main")).code == "PC0125"
    assert finding(git_source("git:main:vendor")).code == "PC0125"
    assert names(git_source("git:main:policies")) == ["a"]


def test_links_are_read_through_or_refused(repository: Path) -> None:
    (repository / "policies" / "same.yaml").symlink_to("a.yaml")
    (repository / "policies" / "here").symlink_to(".")
    (repository / "policies" / "manual").symlink_to("read me.txt")
    commit(repository)
    assert names(git_source("git:main")) == ["a"]
    assert names(git_source("git:main:policies")) == ["a"]
    (repository / "other").mkdir()
    (repository / "other" / "b.yaml").symlink_to("../policies/a.yaml")
    (repository / "other" / "c.yaml").write_text(POLICY.replace("NAME", "c"))
    commit(repository)
    assert finding(git_source("git:main:other")).code == "PC0129"
    assert finding(git_source("git:main:policies/same.yaml")).code == "PC0126"
    assert sorted(names(git_source("git:main"))) == ["a", "c"]


def test_a_git_lfs_pointer_is_an_error(repository: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 10\n"
    (repository / "policies" / "b.yaml").write_text(pointer)
    commit(repository)
    assert finding(git_source("git:main")).code == "PC0127"


def test_odd_names_of_files(repository: Path) -> None:
    for name in ("b\nb.yaml", 'c"c.yaml', "d d.yaml"):
        (repository / "policies" / name).write_text(POLICY.replace("NAME", f"p{ord(name[0])}"))
    Path(os.fsdecode(b"policies/\xff.yaml")).write_text(POLICY.replace("NAME", "z"))
    commit(repository)
    read = read_policies([git_source("git:main")])
    assert sorted(item.policy.name for item in read.lowered) == ["a", "p100", "p98", "p99", "z"]
    assert read.inputs[-1].path == "git:main:policies/\\xff.yaml"
