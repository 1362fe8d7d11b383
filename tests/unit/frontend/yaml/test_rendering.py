# SPDX-License-Identifier: Apache-2.0
"""Kustomizations and charts, rendered by small programs that stand for kustomize, kubectl and helm."""

import io
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from policyc.compiler.frontend.named_sources import named_sources
from policyc.compiler.frontend.read import PolicyInput, ReadOptions, read_policies
from policyc.compiler.frontend.yaml import rendering
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import CodedHostError, InputError
from tests.commits import first_commit

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db}
spec: {podSelector: {}, policyTypes: [Ingress]}
"""
PRINTS = 'case "$2" in /*|.*|[a-z]*) exec /bin/cat "$2/out.yaml";; esac\nexit 64\n'
HELM = '{ for word; do echo "# $word"; done; /bin/cat "$3/out.yaml"; }\n'
OPTIONS = ReadOptions(default_namespace="shop")
Tool = Callable[[str, str], None]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Writes a tool onto a PATH that has only git and such tools; the working directory has `app`."""
    programs, temporary, work = tmp_path / "bin", tmp_path / "temporary", tmp_path / "work"
    for folder in (programs, temporary, work / "app"):
        folder.mkdir(parents=True)
    git = shutil.which("git")
    assert git
    (programs / "git").symlink_to(git)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.chdir(work)
    Path("app/out.yaml").write_text(POLICY)

    def write(name: str, script: str) -> None:
        (programs / name).write_text(f"#!/bin/sh\n{script}")
        (programs / name).chmod(0o755)

    return write


def read(*arguments: str, options: ReadOptions = OPTIONS) -> PolicyInput:
    return read_policies(named_sources(arguments, io.BytesIO(), options), options)


def fault(*arguments: str, options: ReadOptions = OPTIONS) -> Diagnostic:
    with pytest.raises(InputError) as caught:
        read(*arguments, options=options)
    (only,) = (each for each in caught.value.findings if each.is_error)
    return only


def leftovers() -> list[str]:
    return [each.name for each in Path(tempfile.gettempdir()).iterdir()]


def test_a_kustomization_is_built(tool: Tool) -> None:
    tool("kustomize", f'[ "$*" = "build app" ] || exit 64\n{PRINTS}')
    tool("kubectl", "exit 64\n")
    found = read("kustomize:app")
    (item,) = found.lowered
    assert (item.policy.namespace, item.policy.name) == ("shop", "db")
    assert item.policy.origin.span.file == "<kustomize app>"
    assert [each.path for each in found.inputs] == ["<kustomize app>"]


def test_kubectl_builds_it_where_kustomize_is_missing(tool: Tool) -> None:
    tool("kubectl", f'[ "$*" = "kustomize app" ] || exit 64\n{PRINTS}')
    assert len(read("kustomize:app").lowered) == 1


def test_a_source_that_is_named_twice_is_rendered_once(tool: Tool) -> None:
    tool("kustomize", f"echo >> runs\n{PRINTS}")
    assert len(read("kustomize:app", "kustomize:app").lowered) == 1
    assert Path("runs").read_text() == "\n"


def test_helm_gets_a_release_a_namespace_and_values(tool: Tool) -> None:
    tool("helm", f"echo $* > arguments\n{HELM}")
    options = replace(OPTIONS, helm_values=("a.yaml", "b c.yaml"))
    (item,) = read("helm:./app", options=options).lowered
    assert item.policy.origin.span.file == "<helm ./app>"
    expected = "template app ./app --namespace shop --values a.yaml --values b c.yaml\n"
    assert Path("arguments").read_text() == expected


def test_a_place_that_begins_with_a_dash_is_no_option(tool: Tool) -> None:
    tool("kustomize", "echo $* > arguments\n")
    Path("-x").mkdir()
    read("kustomize:-x")
    assert Path("arguments").read_text() == "build ./-x\n"
    assert fault("helm:-x").code == "PC0144"


@pytest.mark.parametrize("name", ["kustomize:", "helm:", "helm:-", "kustomize:-", "helm:/"])
def test_a_name_without_a_place(tool: Tool, name: str) -> None:
    assert fault(name).code == "PC0144"


@pytest.mark.parametrize(
    ("name", "tools", "pipe"),
    [
        ("kustomize:app", "kustomize or kubectl", "kustomize build DIR | policyc ... -f -"),
        ("helm:app", "helm", "helm template NAME CHART | policyc ... -f -"),
    ],
)
def test_a_missing_tool_is_a_failure_of_the_host(
    tool: Tool, name: str, tools: str, pipe: str
) -> None:
    with pytest.raises(CodedHostError, match=f"needs {tools}: not found on PATH") as caught:
        read(name)
    (finding,) = caught.value.findings
    assert (finding.code, caught.value.exit_code) == ("PC0141", 3)
    assert pipe in finding.hint and tools in finding.hint
    assert pickle.loads(pickle.dumps(caught.value)).findings == (finding,)


def test_a_tool_that_does_not_start(tool: Tool) -> None:
    tool("kustomize", "")
    (Path(os.environ["PATH"]) / "kustomize").write_bytes(b"\0\0")
    with pytest.raises(CodedHostError, match=r"kustomize does not start: Exec format error"):
        read("kustomize:app")


def test_a_tool_that_does_not_end_is_stopped(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "SECONDS", 0.2)
    tool("kustomize", "while :; do :; done\n")
    with pytest.raises(CodedHostError, match="`kustomize build app` was stopped") as caught:
        read("kustomize:app")
    assert caught.value.findings[0].code == "PC0143"


def test_a_directory_that_does_not_exist(tool: Tool) -> None:
    tool("kustomize", PRINTS)
    found = fault("kustomize:none")
    assert (found.code, found.message) == ("PC0101", "no such file or directory: none")


def test_a_failure_shows_the_tool_s_own_words(tool: Tool) -> None:
    tool("helm", 'echo "out"; echo "  Error: no" >&2; echo "template" >&2; exit 3\n')
    found = fault("helm:app")
    assert found.code == "PC0142"
    assert found.message == "`helm template app app --namespace shop` failed: Error: no; template"
    assert found.span.file == "<helm app>"


def test_a_failure_without_words(tool: Tool) -> None:
    tool("kustomize", "exit 3\n")
    assert fault("kustomize:app").message == "`kustomize build app` failed: it ended with 3"


def test_hostile_error_text_is_printable_and_short(tool: Tool) -> None:
    tool("kustomize", "printf '\\033[31mred\\007 ##[group]%0100000d\\377end\\n' 7 >&2; exit 1\n")
    message = fault("kustomize:app").message
    assert "\\x1b[31mred\\x07 \\x23#[group]" in message and message.endswith("end")
    assert message.isprintable() and len(message) < 1100


def test_output_that_is_no_yaml(tool: Tool) -> None:
    tool("kustomize", "echo 'a: [b'\n")
    found = fault("kustomize:app")
    assert found.code == "PC0105" and found.span.file == "<kustomize app>"


def test_output_without_an_object(tool: Tool) -> None:
    tool("kustomize", "exit 0\n")
    (found,) = read("kustomize:app").findings
    assert found.message == "no objects in <kustomize app>"
    assert fault("kustomize:app", options=replace(OPTIONS, allow_empty=False)).code == "PC0117"


def test_output_that_is_too_large(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policyc.compiler.frontend.yaml.sources.MAX_BYTES", 10)
    tool("kustomize", PRINTS)
    assert fault("kustomize:app").code == "PC0118"


def test_a_commit_is_rendered_as_it_was(tool: Tool) -> None:
    """The tool sees the whole commit, and the directory is removed."""
    tool("kustomize", f'/bin/cat "$2/../base/out.yaml"; echo ---\n{PRINTS}')
    Path("base").mkdir()
    Path("base/out.yaml").write_text(POLICY.replace("db", "base"))
    first_commit()
    Path("app/out.yaml").unlink()
    Path("base/out.yaml").unlink()
    found = read("kustomize:git:HEAD:app").lowered
    assert [each.policy.name for each in found] == ["base", "db"]
    assert found[1].policy.origin.span.file == "<kustomize git:HEAD:app>"
    assert not leftovers()


def test_a_failure_in_a_commit_does_not_show_the_directory(tool: Tool) -> None:
    tool("kustomize", 'echo "Error: $2/out.yaml is bad" >&2; exit 1\n')
    first_commit()
    found = fault("kustomize:git:HEAD:app")
    assert found.message == (
        "`kustomize build git:HEAD:app` failed: Error: git:HEAD:app/out.yaml is bad"
    )
    assert found.span.file == "<kustomize git:HEAD:app>"
    assert not leftovers()


def test_the_directory_is_removed_when_the_tool_is_stopped(
    tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "SECONDS", 0.2)
    tool("kustomize", "while :; do :; done\n")
    first_commit()
    with pytest.raises(CodedHostError, match="`kustomize build git:HEAD:app` was stopped"):
        read("kustomize:git:HEAD:app")
    assert not leftovers()


def test_a_chart_of_a_commit_gets_the_values_of_the_commit(tool: Tool, tmp_path: Path) -> None:
    """Values outside the repository are the same for every commit."""
    tool("helm", f'echo "$*" > arguments; /bin/cat "$7" "$9" > values\n{HELM}')
    Path("values.yaml").write_text("old")
    first_commit()
    Path("values.yaml").write_text("new")
    (tmp_path / "outside.yaml").write_text("outside")
    options = replace(OPTIONS, helm_values=("values.yaml", "../outside.yaml"))
    (item,) = read("helm:git:HEAD:app", options=options).lowered
    assert item.policy.origin.span.file == "<helm git:HEAD:app>"
    assert Path("values").read_text() == "oldoutside"
    assert Path("arguments").read_text().startswith("template app /")


def test_values_that_the_commit_lacks(tool: Tool) -> None:
    tool("helm", HELM)
    first_commit()
    Path("values.yaml").write_text("new")
    found = fault("helm:git:HEAD:app", options=replace(OPTIONS, helm_values=("values.yaml",)))
    assert (found.code, found.span.file) == ("PC0124", "git:HEAD:values.yaml")
    assert not leftovers()


def test_a_chart_at_the_root_has_the_repository_s_name(tool: Tool) -> None:
    tool("helm", f"echo $2 >> releases\n{HELM}")
    Path("out.yaml").write_text(POLICY)
    first_commit()
    read("helm:git:HEAD:")
    read("helm:.")
    assert Path("releases").read_text() == "work\nwork\n"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "loop/../../../x"])
def test_a_link_out_of_the_commit_is_refused(tool: Tool, target: str) -> None:
    tool("kustomize", "echo ran > ran\n")
    Path("app/link").symlink_to(target)
    Path("app/loop").symlink_to(".")
    first_commit()
    found = fault("kustomize:git:HEAD:app")
    assert (found.code, found.span.file) == ("PC0129", "git:HEAD:app/link")
    assert not Path("ran").exists() and not leftovers()


def test_links_inside_a_commit_stay(tool: Tool) -> None:
    tool("kustomize", PRINTS)
    Path("same").symlink_to("app")
    first_commit()
    assert len(read("kustomize:git:HEAD:app").lowered) == 1


def test_a_commit_or_directory_that_does_not_exist(tool: Tool) -> None:
    tool("kustomize", PRINTS)
    first_commit()
    assert fault("kustomize:git:none:app").code == "PC0123"
    assert fault("kustomize:git:HEAD:none").code == "PC0124"
    assert fault("kustomize:git::app").code == "PC0121"


def test_helm_does_not_follow_links_out_of_the_repository(tool: Tool, tmp_path: Path) -> None:
    tool("helm", f"echo ran > ran\n{HELM}")
    (tmp_path / "secret").write_text("x")
    Path("other").mkdir()
    Path("other/link").symlink_to(tmp_path / "secret")
    Path("app/other").symlink_to("../other")
    first_commit()
    found = fault("helm:app")
    assert (found.code, found.span.file) == ("PC0129", "app/other/link")
    assert not Path("ran").exists()
    Path("other/link").unlink()
    assert len(read("helm:app").lowered) == 1
