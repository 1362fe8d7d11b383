# SPDX-License-Identifier: Apache-2.0
"""`compile --socket-programs` adds the programs at sockets, and changes nothing else of a bundle."""

import json
from pathlib import Path

import pytest

from policyc.compiler.driver.compile.bundle import POLICY_PROGRAM, SOCKET_PROGRAMS
from policyc.compiler.driver.compile.target import Backend
from policyc.verifier.bytecode.object import BpfObject, read_object
from policyc.verifier.bytecode.program import link_program
from tests.end_to_end.command import policyc_here

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Egress]
  egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{protocol: TCP, port: %s}]}]
"""
backends = pytest.mark.parametrize("backend", [each.value for each in Backend])


def compiled(folder: Path, name: str, *options: str, port: int = 80) -> Path:
    source = folder / "policies.yaml"
    source.write_text(POLICY % port)
    done = policyc_here("compile", "-f", str(source), "-o", str(folder / name), *options)
    assert done.returncode == 0, done.stderr
    return folder / name


def program_of(bundle: Path) -> BpfObject:
    return read_object((bundle / "policy.bpf.o").read_bytes())


def named(bundle: Path) -> set[str]:
    manifest = json.loads((bundle / "manifest.json").read_text())
    return {each["name"] for each in manifest["programs"] if each["object"] == "policy.bpf.o"}


@backends
def test_the_object_has_the_hooks_only_if_they_are_asked_for(tmp_path: Path, backend: str) -> None:
    plain = compiled(tmp_path, "plain", "--backend", backend)
    hooked = compiled(tmp_path, "hooked", "--backend", backend, "--socket-programs")
    assert set(program_of(plain).entries) == named(plain) == {POLICY_PROGRAM}
    assert set(program_of(hooked).entries) == named(hooked) == {POLICY_PROGRAM, *SOCKET_PROGRAMS}
    added = program_of(hooked).maps.keys() - program_of(plain).maps.keys()
    assert "pc_conn_epoch" in added and "pc_socket_pods" in added
    for name in ("plan.json", "rules.json", "classifier.json"):
        assert (plain / name).read_bytes() == (hooked / name).read_bytes()


@backends
def test_the_policy_program_is_the_same_with_hooks(tmp_path: Path, backend: str) -> None:
    one, other = (
        link_program(program_of(each), POLICY_PROGRAM).functions[POLICY_PROGRAM].code
        for each in (
            compiled(tmp_path, "plain", "--backend", backend),
            compiled(tmp_path, "hooked", "--backend", backend, "--socket-programs"),
        )
    )
    assert list(one.values()) == list(other.values())


def test_a_build_cache_knows_both_and_edits_of_each(tmp_path: Path) -> None:
    for port in (80, 81):
        for options in ((), ("--socket-programs",)):
            cached = compiled(
                tmp_path, "cached", *options, "--cache", str(tmp_path / "c"), port=port
            )
            anew = compiled(tmp_path, "anew", *options, port=port)
            files = sorted(path.relative_to(anew) for path in anew.rglob("*") if path.is_file())
            for each in files:
                assert (cached / each).read_bytes() == (anew / each).read_bytes(), each


@pytest.mark.slow
def test_a_bundle_with_hooks_is_proved_and_the_proof_says_what_is_assumed(tmp_path: Path) -> None:
    bundle = compiled(tmp_path, "hooked", "--socket-programs", "--prove")
    proof = json.loads((bundle / "proof.json").read_text())
    assert any("hooks at connect()" in each for each in proof["assumptions"])
    done = policyc_here("prove", str(bundle), "-f", str(tmp_path / "policies.yaml"))
    assert done.returncode == 0 and "assumed: hooks at connect()" in done.stdout
