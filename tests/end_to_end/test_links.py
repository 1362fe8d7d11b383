# SPDX-License-Identifier: Apache-2.0
"""Untrusted directories: links out of them, FIFOs and devices are refused and never read."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run as in_process

SECRET = "the-secret-of-the-runner"
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: NAME, namespace: shop}
spec: {podSelector: {}, policyTypes: [Ingress]}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: c}]}
status: {podIP: 10.0.0.1}
"""
INTENT = 'intent "nothing": deny from any to any\n'
Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`given` and `plain` have a policy each; a file out of both has the secret."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "given").mkdir()
    (tmp_path / "given/a.yaml").write_text(POLICY.replace("NAME", "a"))
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/a.yaml").write_text(POLICY.replace("NAME", "a"))
    (tmp_path / "pods.yaml").write_text(POD)
    return tmp_path


@pytest.fixture
def policyc(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Runs policyc in the folder, in this process."""

    def run(*arguments: str) -> Done:
        capfd.readouterr()
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            code = in_process(list(arguments))
        return Done(arguments, code, *capfd.readouterr())

    return run


@pytest.fixture
def process(folder: Path) -> Run:
    """Runs policyc in the folder, as a process with the secret in its environment."""

    def run(*arguments: str, stdin: str = "") -> Done:
        return subprocess.run(
            [sys.executable, "-m", "policyc.compiler.cli", *arguments],
            cwd=folder,
            env={"SECRET": SECRET, **os.environ},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


READERS = {
    "compile": ("compile", "-f", "given", "--emit", "policy-ir"),
    "eval": ("eval", "-f", "given", "10.0.0.1", "10.0.0.2", "tcp/80"),
    "cluster": ("eval", "-f", "plain", "--cluster", "given", "10.0.0.1", "10.0.0.2", "tcp/80"),
    "check": ("check", "-f", "given"),
    "diff": ("diff", "given", "plain"),
    "diff --cluster": ("diff", "plain", "plain", "--cluster", "given"),
    "equiv": ("equiv", "plain", "given"),
    "verify": ("verify", "-f", "plain", "--intents", "given"),
    "explain": ("explain", "-f", "given", "10.0.0.1", "10.0.0.2", "tcp/80"),
    "list": ("list", "-f", "given", "--cluster", "pods.yaml"),
    "convert": ("convert", "-f", "given", "--to", "calico"),
    "fmt": ("fmt", "--check", "given"),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_link_out_of_a_directory_is_refused_by_every_reader(
    reader: tuple[str, ...], policyc: Run, tmp_path: Path
) -> None:
    (tmp_path / "given/b.yaml").symlink_to("../secret")
    done = policyc(*reader)
    assert done.returncode == 2
    assert "given/b.yaml: error[PC0129]:" in done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_a_link_to_the_environment_is_refused(process: Run, tmp_path: Path) -> None:
    (tmp_path / "given/environ.yaml").symlink_to("/proc/self/environ")
    done = process("compile", "-f", "given", "--emit", "policy-ir")
    assert done.returncode == 2
    assert "given/environ.yaml: error[PC0129]:" in done.stderr
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/etc", "etc"),
        ("../plain", "more"),
        ("../plain/a.yaml", "b.yaml"),
        ("../nowhere", "nowhere"),
        ("..", "up"),
        ("here/../../plain", "through"),
        ("/proc/self/environ", "environ.json"),
    ],
)
def test_every_link_that_leads_out_is_refused(
    target: str, name: str, policyc: Run, tmp_path: Path
) -> None:
    (tmp_path / "given/here").mkdir()
    (tmp_path / "given" / name).symlink_to(target)
    done = policyc("compile", "-f", "given", "--emit", "policy-ir")
    assert done.returncode == 2
    assert f"given/{name}: error[PC0129]: given/{name} is a symbolic link" in done.stderr
    assert "help: " in done.stderr


def test_a_link_out_of_the_input_is_skipped_if_its_name_is_not_read(
    process: Run, tmp_path: Path
) -> None:
    """A virtual environment has such links."""
    (tmp_path / "given" / "python3").symlink_to("/proc/self/environ")
    done = process("compile", "-f", "given", "--emit", "policy-ir")
    assert done.returncode == 0
    assert "note[PC0132]" in done.stderr and "1 symbolic link" in done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_links_to_places_inside_are_passed_over_and_counted(policyc: Run, tmp_path: Path) -> None:
    (tmp_path / "given/b.yaml").symlink_to("a.yaml")
    (tmp_path / "given/here").symlink_to(".")
    (tmp_path / "given/absolute").symlink_to(tmp_path / "given")
    (tmp_path / "given/back.yaml").symlink_to("../given/a.yaml")
    done = policyc("compile", "-f", "given", "--emit", "policy-ir")
    assert done.returncode == 0
    assert done.stdout.count("NetworkPolicy") == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("given: note[PC0132]: skipped: 4 symbolic links;")


def test_a_mounted_config_map_is_read(policyc: Run, tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    (folder / "..2026").mkdir(parents=True)
    (folder / "..2026/p.yaml").write_text(POLICY.replace("NAME", "p"))
    (folder / "..data").symlink_to("..2026")
    (folder / "p.yaml").symlink_to("..data/p.yaml")
    done = policyc("compile", "-f", "mounted", "--emit", "policy-ir")
    assert (done.returncode, done.stdout.count("shop/p")) == (0, 1)
    assert "2 symbolic links" in done.stderr


def test_links_that_lead_nowhere_are_refused(policyc: Run, tmp_path: Path) -> None:
    (tmp_path / "given/gone.yaml").symlink_to("b.yaml")
    (tmp_path / "given/gone").symlink_to("missing")
    (tmp_path / "given/one").symlink_to("two")
    (tmp_path / "given/two").symlink_to("one")
    done = policyc("compile", "-f", "given", "--emit", "policy-ir")
    assert done.returncode == 2
    for name in ("gone.yaml", "gone", "one", "two"):
        assert f"given/{name}: error[PC0130]" in done.stderr


def test_a_link_to_a_file_that_is_not_read_is_refused(policyc: Run, tmp_path: Path) -> None:
    (tmp_path / "given/notes.txt").write_text(POLICY.replace("NAME", "notes"))
    (tmp_path / "given/b.yaml").symlink_to("notes.txt")
    done = policyc("compile", "-f", "given", "--emit", "policy-ir")
    assert done.returncode == 2
    assert "given/b.yaml: error[PC0126]" in done.stderr


@pytest.mark.parametrize("name", ["b.yaml", "pipe"])
def test_a_fifo_in_a_directory_is_refused_and_not_waited_for(
    name: str, policyc: Run, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "given" / name)
    done = policyc("compile", "-f", "given", "--emit", "policy-ir")
    assert done.returncode == 2
    assert f"given/{name}: error[PC0131]: given/{name} is a FIFO" in done.stderr


def test_a_socket_in_a_directory_is_refused(
    policyc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("given/s.yaml")
        done = policyc("compile", "-f", "given", "--emit", "policy-ir")
    assert done.returncode == 2
    assert "given/s.yaml: error[PC0131]: given/s.yaml is a socket" in done.stderr


def test_a_fifo_for_the_manifest_of_a_bundle_is_not_waited_for(
    policyc: Run, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "given/manifest.json")
    done = policyc("diff", "given", "plain")
    assert done.returncode == 2
    assert "given/manifest.json: error[PC0131]" in done.stderr


def test_a_path_on_the_command_line_may_be_a_link(policyc: Run, tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to("given/a.yaml")
    (tmp_path / "folder").symlink_to("given")
    for path in ("link.yaml", "folder"):
        done = policyc("compile", "-f", path, "--emit", "policy-ir")
        assert (done.returncode, done.stdout.count("shop/a"), done.stderr) == (0, 1, "")


def test_pipes_on_the_command_line_are_read(process: Run, tmp_path: Path) -> None:
    text = POLICY.replace("NAME", "piped")
    for path in ("-", "/dev/stdin"):
        done = process("compile", "-f", path, "--emit", "policy-ir", stdin=text)
        assert (done.returncode, done.stdout.count("shop/piped")) == (0, 1)
    shell = 'exec "$0" -m policyc.compiler.cli compile -f <(cat given/a.yaml) --emit policy-ir'
    done = subprocess.run(
        ["bash", "-c", shell, sys.executable],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.count("shop/a")) == (0, 1)


def test_a_link_as_default_configuration_is_refused(
    policyc: Run, process: Run, tmp_path: Path
) -> None:
    (tmp_path / ".policyc.yaml").symlink_to("/proc/self/environ")
    done = process("check", "-f", "given")
    assert done.returncode == 2
    assert ".policyc.yaml: error[PC0131]: .policyc.yaml is a link" in done.stderr
    assert SECRET not in done.stdout + done.stderr
    (tmp_path / "own.yaml").write_text("check: {severities: {}}\n")
    (tmp_path / "named.yaml").symlink_to("own.yaml")
    assert policyc("check", "-f", "given", "--config", "named.yaml").returncode in (0, 1)


def test_no_link_with_the_name_of_other_input_has_its_target_quoted(
    process: Run, tmp_path: Path
) -> None:
    """A finding has only the name that is shown; a file of another name may have been read."""
    secret = tmp_path / "secret"
    odd = os.fsdecode(b"d\xff.yaml")
    (tmp_path / odd).write_text("a: 1\n")
    (tmp_path / "d\\xff.yaml").symlink_to(secret)
    (tmp_path / "<stdin>").symlink_to(secret)
    (tmp_path / "git:main:wrong").mkdir()
    (tmp_path / "git:main:wrong/a.yaml").symlink_to(secret)
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong/a.yaml").write_text("kind: Pod\n")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "wrong")
    git(tmp_path, "commit", "-q", "-m", "a")
    for given, stdin in ((odd, ""), ("-", "a: 1\n"), ("git:main:wrong", "")):
        done = process("diff", given, "plain", stdin=stdin)
        assert done.returncode == 2
        assert "error[PC0301]" in done.stderr
        assert SECRET not in done.stderr


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("links", "code"),
    [
        ({"b.yaml": "../secret"}, "PC0129"),
        ({"b.yaml": "../plain/a.yaml"}, "PC0129"),
        ({"more": "../plain"}, "PC0129"),
        ({"here": ".", "b.yaml": "here/../../plain/a.yaml"}, "PC0129"),
        ({"b.yaml": "c.yaml"}, "PC0130"),
        ({"b.yaml": "c.yaml", "c.yaml": "b.yaml"}, "PC0130"),
        ({"b.yaml": "notes.txt"}, "PC0126"),
        ({"b.yaml": "a.yaml", "here": ".", "c.yaml": "here/a.yaml"}, "PC0132"),
        ({"b.yaml": "../given/a.yaml"}, "PC0132"),
    ],
)
def test_links_in_a_commit_are_treated_as_in_a_directory(
    links: dict[str, str], code: str, policyc: Run, tmp_path: Path
) -> None:
    (tmp_path / "given/notes.txt").write_text("no YAML")
    for name, target in links.items():
        (tmp_path / "given" / name).symlink_to(target)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "given", "plain")
    git(tmp_path, "commit", "-q", "-m", "a")
    here = policyc("diff", "given", "plain")
    in_commit = policyc("diff", "git:main:given", "plain")
    for done in (here, in_commit):
        assert done.returncode == (0 if code == "PC0132" else 2)
        assert f"[{code}]" in done.stderr
    assert SECRET not in here.stderr + in_commit.stderr
