# SPDX-License-Identifier: Apache-2.0
"""`policyc fmt` changes the layout of its fields and nothing else, in whole files or not at all."""

import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policyc.compiler.cli.main import run
from policyc.compiler.frontend.extended.formatting import format_yaml_file
from policyc.ir.diagnostics import Report
from tests.unit.grammar.samples import BLOCKS, EXPRESSIONS

POLICY = """\
# kept   as it is
apiVersion:   policyc.dev/v1alpha1
kind: "ExtendedPolicy"
metadata: { name:  p }
spec:
  appliesTo: %s
  rules: |%s
     ingress :
      allow   tcp/80   from  any#why
     # last

  tier:  5
---
kind: Other   # not ours
spec: {rules:  "ingress :"}
"""
RULES = """\
     ingress:
       allow tcp/80 from any  #why
       # last
"""


def laid_out(head: str = "", expression: str = 'pod.a == "x"') -> str:
    start, _, rest = (POLICY % (expression, head)).partition("     ingress :")
    return start + RULES + rest[rest.index("\n  tier") :]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(POLICY % ('pod.a=="x"', ""))
    return path


def test_only_the_fields_change(policy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["fmt", str(policy)]) == 0
    assert policy.read_text() == laid_out()
    assert capfd.readouterr().err == f"policyc: laid out: {policy}\n"


def test_formatting_twice_changes_nothing(policy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(["fmt", str(policy)])
    before = policy.stat().st_mtime_ns
    capfd.readouterr()
    assert run(["fmt", str(policy)]) == 0
    assert policy.stat().st_mtime_ns == before
    assert capfd.readouterr().err == ""


def test_check_and_diff_write_nothing(policy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = policy.read_bytes()
    assert run(["fmt", "--check", str(policy)]) == 1
    assert capfd.readouterr().out == ""
    assert run(["fmt", "--diff", str(policy)]) == 1
    shown = capfd.readouterr().out
    assert "-     ingress :\n" in shown and "+     ingress:\n" in shown
    assert policy.read_bytes() == before
    run(["fmt", str(policy)])
    assert run(["fmt", "--check", str(policy)]) == 0
    assert run(["fmt", "--diff", str(policy)]) == 0


WRITTEN = [
    ("'pod.a==\"x\"'", "'pod.a == \"x\"'"),
    ("\"pod.a=='x'\"", "\"pod.a == 'x'\""),
    ('"pod.a==\\"x\\""', '"pod.a==\\"x\\""'),
    ('>-\n    pod.a=="x"', '>-\n    pod.a=="x"'),
    ("&a all", "&a all"),
]


@pytest.mark.parametrize(("before", "after"), WRITTEN)
@pytest.mark.parametrize("head", ["", "-", "3", " # block"])
def test_ways_of_writing_yaml(tmp_path: Path, before: str, after: str, head: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(POLICY % (before, head))
    assert run(["fmt", str(path)]) == 0
    assert path.read_text() == laid_out(head, after)


@pytest.mark.parametrize("style", [">", "'"])
def test_folded_and_quoted_rules_are_left_alone(tmp_path: Path, style: str) -> None:
    text = POLICY % ("all", "")
    start, _, rest = text.partition("  rules: |")
    value = ">\n     ingress :" if style == ">" else "'ingress :'"
    path = tmp_path / "p.yaml"
    path.write_text(start + f"  rules: {value}" + rest[rest.index("\n\n  tier") :])
    before = path.read_bytes()
    assert run(["fmt", str(path)]) == 0
    assert path.read_bytes() == before


BLOCKS_OF_YAML = [
    ("|2\n      ingress:\n       allow any", "|2\n    ingress:\n      allow any"),
    ("|4\n      ingress:\n       allow  any", "|4\n      ingress:\n        allow any"),
    ("|\n     allow  any", "|\n     allow any"),
    ("|-\n   deny tcp/80 from  any\n   egress:", "|-\n   deny tcp/80 from any\n   egress:"),
    (
        "|\n     # c\n     allow  any\n   \n     egress:",
        "|\n     # c\n     allow any\n\n     egress:",
    ),
]


@pytest.mark.parametrize(("before", "after"), BLOCKS_OF_YAML)
def test_fmt_keeps_yaml_blocks(before: str, after: str) -> None:
    """A first line that stands deeper than others would be taken for the indentation of all."""
    start, _, _ = (POLICY % ("all", "")).partition("|\n     ingress :")
    old, new = (f"{start}{text}\n  tier: 5\n".encode() for text in (before, after))
    report = Report()
    assert format_yaml_file(old, "p.yaml", report) == new, report.findings
    assert format_yaml_file(new, "p.yaml", report) == new


def test_line_ends_and_marks_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(("\ufeff" + POLICY % ('pod.a=="x"', "")).replace("\n", "\r\n").encode())
    assert run(["fmt", str(path)]) == 0
    assert path.read_bytes() == ("\ufeff" + laid_out()).replace("\n", "\r\n").encode()
    intents = tmp_path / "x.intent"
    intents.write_bytes("\ufeffnever  any\r\n".encode())
    assert run(["fmt", str(intents)]) == 0
    assert intents.read_bytes() == "\ufeffnever any\r\n".encode()


def test_lists_and_intents_are_laid_out(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    start = (
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: policyc.dev/v1alpha1\n  kind: Intent\n"
    )
    path.write_text(start + "  spec:\n    intents: |\n        never   any\n")
    assert run(["fmt", str(path)]) == 0
    assert path.read_text().endswith("    intents: |\n        never any\n")


def test_a_file_with_mistakes_is_left_alone(
    policy: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(POLICY % ("all", "") + "---\n" + POLICY.replace("allow", "alow") % ("all", ""))
    before = bad.read_bytes()
    assert run(["fmt", str(tmp_path)]) == 2
    assert bad.read_bytes() == before
    assert policy.read_text() == laid_out()  # the others are laid out all the same
    shown = capfd.readouterr().err
    assert "PC1401" in shown and "bad.yaml:25:7" in shown


@pytest.mark.parametrize("text", ["kind: [policyc.dev", "policyc.dev: !!x 1", "never any\n\xff"])
def test_files_that_cannot_be_read_are_reported(tmp_path: Path, text: str) -> None:
    name = "x.intent" if "never" in text else "p.yaml"
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    assert run(["fmt", str(tmp_path)]) == 2
    assert run(["fmt", str(tmp_path / "nothing")]) == 2


def test_files_of_other_kinds_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "chart.yaml"
    path.write_text("a: {{ template }}\n")
    assert run(["fmt", str(tmp_path)]) == 0


def test_standard_input_goes_to_standard_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Stdin:
        buffer = io.BytesIO(b"never   any\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    assert run(["fmt", "-"]) == 0
    assert capfd.readouterr().out == "never any\n"
    Stdin.buffer = io.BytesIO((POLICY % ('pod.a=="x"', "")).encode())
    assert run(["fmt", "-"]) == 0
    assert capfd.readouterr().out == laid_out()
    assert run(["fmt", "-", "x"]) == 2


def test_fmt_keeps_the_mode_and_a_link(policy: Path, tmp_path: Path) -> None:
    policy.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(policy)
    assert run(["fmt", str(link)]) == 0
    assert link.is_symlink()
    assert policy.read_text() == laid_out()
    assert policy.stat().st_mode & 0o7777 == 0o640
    assert names_in(tmp_path) == ["link.yaml", "p.yaml"]


def test_a_failed_write_leaves_the_file(
    policy: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = policy.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert run(["fmt", str(policy)]) == 2
    assert f"{policy}: error[PC0902]" in capfd.readouterr().err
    assert policy.read_bytes() == before
    assert names_in(policy.parent) == ["p.yaml"]


def test_an_unwritable_file_does_not_stop_the_others(
    policy: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    other = policy.parent / "a.intent"
    other.write_text("never   any\n")
    replace = Path.replace

    def refuse(self: Path, target: Path) -> Path:
        if target.name == other.name:
            raise PermissionError(13, "Permission denied")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    assert run(["fmt", str(policy.parent)]) == 2
    shown = capfd.readouterr().err
    assert f"{other}: error[PC0902]" in shown and "Permission denied" in shown
    assert f"laid out: {policy}\n" in shown and f"laid out: {other}" not in shown
    assert policy.read_text() == laid_out()


def test_a_directory_without_files_names_the_expected_endings(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["fmt", str(tmp_path)]) == 2
    assert "(*.yaml, *.yml, *.json, *.intent)" in capfd.readouterr().err


def test_fmt_without_paths_formats_the_current_directory(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(policy.parent)
    assert run(["fmt"]) == 0
    assert policy.read_text() == laid_out()


@given(BLOCKS, EXPRESSIONS, st.integers(3, 9))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_formatting_any_block_twice_changes_nothing(
    block: str, expression: str, indent: int
) -> None:
    lines = "".join(" " * indent + line + "\n" for line in f"ingress:\n{block}".splitlines())
    head = "apiVersion: policyc.dev/v1alpha1\nkind: ExtendedPolicy\nspec:\n"
    text = f"{head}  appliesTo: {quoted(expression)}\n  rules: |\n{lines}  tier: 5\n"
    report = Report()
    once = format_yaml_file(text.encode(), "p.yaml", report)
    assert once is not None, report.findings
    assert format_yaml_file(once, "p.yaml", report) == once
    assert once.endswith(b"  tier: 5\n")


def quoted(expression: str) -> str:
    return "'" + expression.replace("'", '"') + "'"
