# SPDX-License-Identifier: Apache-2.0
"""`policyc compile --prove` and `policyc prove`: what is proved, and that nothing stored is believed."""

import base64
import hashlib
import json
import os
import pickle
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.driver.compile import bytecode_proof
from policyc.ir.results.prove import ProvedPart
from policyc.verifier.smt.solver_choice import Choice
from policyc.verifier.translation.data_lemma import DataLemma
from tests.property.length import AT_LENGTH
from tests.shared import made_once

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "schemas"
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress]
  ingress:
  - from: [{ipBlock: {cidr: 10.0.0.0/8}}]
    ports: [{port: 80}]
"""
OTHER = POLICY.replace("port: 80", "port: 81")
REJECTING = """\
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {name: stern, namespace: shop}
spec:
  tier: 100
  appliesTo: all
  rules: |
    ingress:
      reject tcp/80 from any
"""


@pytest.fixture(scope="module", autouse=True)
def executions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ProvedPart]]:
    """The answers about programs that no cache gave.

    Under `make test` a question is answered once in a run: to execute a program takes ten seconds.
    """
    asked: list[ProvedPart] = []
    execute = bytecode_proof._code_anew

    def answer(
        given: bytecode_proof.ProvedGeneration, data: DataLemma, solver: Choice
    ) -> ProvedPart:
        def make(folder: Path) -> None:
            (folder / "answer").write_bytes(pickle.dumps(execute(given, data, solver)))

        if os.environ.get(AT_LENGTH):
            found = execute(given, data, solver)
        else:
            key = hashlib.sha256(bytecode_proof._key(given, data, solver).encode()).hexdigest()
            made = made_once(tmp_path_factory, f"executed-{key}", make)
            found = pickle.loads((made / "answer").read_bytes())
        asked.append(found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bytecode_proof, "_code_anew", answer)
        yield asked


class Proven:
    """A bundle that was compiled with --prove, its policies, and the cache that knows the proof."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.policies = folder / "policies.yaml"
        self.policies.write_text(POLICY)
        self.bundle = folder / "bundle"
        self.cache = folder / "cache"

    def arguments(self, bundle: Path, policies: Path | None = None) -> list[str]:
        given = ["-f", str(policies or self.policies), "--cache", str(self.cache)]
        return ["prove", str(bundle), *given]


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Proven:
    found = Proven(tmp_path_factory.mktemp("proven"))
    how = ["-f", str(found.policies), "-o", str(found.bundle), "--cache", str(found.cache)]
    assert run(["compile", *how, "--prove"]) == 0
    return found


@pytest.fixture
def copied(proven: Proven, tmp_path: Path) -> Path:
    """A copy of the bundle, to be tampered with."""
    return Path(shutil.copytree(proven.bundle, tmp_path / "copy"))


def sealed(bundle: Path, change: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """Recompute the digests, which show integrity and prove nothing."""
    path = bundle / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    for name in manifest["files"]:
        manifest["files"][name] = hashlib.sha256((bundle / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(manifest))


def answer(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capfd.readouterr()
    code = run([*arguments, "--format", "json"])
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    schema = json.loads((SCHEMAS / "prove-result-v1.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(found)
    return code, found


def faults(found: dict[str, Any]) -> list[str]:
    return [fault for part in found["parts"] for fault in part["faults"]]


def test_proof_json_lists_proved_parts(proven: Proven) -> None:
    proof = json.loads((proven.bundle / "proof.json").read_text())
    schema = json.loads((SCHEMAS / "proof-v1.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(proof)
    assert min(lemma["claims"] for lemma in proof["proved"]) > 5
    for name, digest in proof["of"].items():
        assert hashlib.sha256((proven.bundle / name).read_bytes()).hexdigest() == digest
    manifest = json.loads((proven.bundle / "manifest.json").read_text())
    assert manifest["proof"]["bytecode"] == "proved" and "proof.json" in manifest["files"]
    bundle = json.loads((SCHEMAS / "bundle-v1.schema.json").read_text())
    jsonschema.Draft202012Validator(bundle).validate(manifest)


def test_compiling_again_gives_the_same_bytes(proven: Proven, tmp_path: Path) -> None:
    out = tmp_path / "again"
    how = ["-f", str(proven.policies), "-o", str(out), "--cache", str(proven.cache), "--prove"]
    assert run(["compile", *how]) == 0
    names = sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file())
    assert "proof.json" in names
    for name in names:
        assert (out / name).read_bytes() == (proven.bundle / name).read_bytes(), name


def test_a_bundle_without_proof_is_marked_not_asked(proven: Proven, tmp_path: Path) -> None:
    out = tmp_path / "plain"
    assert run(["compile", "-f", str(proven.policies), "-o", str(out), "--no-prove"]) == 0
    assert json.loads((out / "manifest.json").read_text())["proof"]["bytecode"] == "not asked"
    assert not (out / "proof.json").exists()


def test_a_bundle_is_proved_again(proven: Proven, capfd: pytest.CaptureFixture[str]) -> None:
    code, found = answer(proven.arguments(proven.bundle), capfd)
    assert (code, found["result"]) == (0, "proved")
    assert [part["result"] for part in found["parts"]] == ["proved"] * 5
    assert run(proven.arguments(proven.bundle)) == 0
    assert capfd.readouterr().out.startswith("proved: ")


def test_prove_without_a_cache_executes_the_program(
    proven: Proven, capfd: pytest.CaptureFixture[str], executions: list[ProvedPart]
) -> None:
    before = len(executions)
    code, found = answer(["prove", str(proven.bundle), "-f", str(proven.policies)], capfd)
    assert (code, found["result"]) == (0, "proved")
    assert found["parts"][-1]["claims"] > 100
    assert len(executions) == before + 1


def test_paths_do_not_matter(
    proven: Proven, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "other-name.yaml"
    elsewhere.write_text(POLICY)
    code, found = answer(proven.arguments(proven.bundle, elsewhere), capfd)
    assert (code, found["result"]) == (0, "proved")


def test_other_policies_are_reported(
    proven: Proven, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "policies.yaml"
    other.write_text(OTHER)
    code, found = answer(proven.arguments(proven.bundle, other), capfd)
    assert (code, found["result"]) == (1, "refuted")
    by_lemma = {part["lemma"]: part["result"] for part in found["parts"]}
    assert by_lemma["Decision IR is the policies"] == "proved"
    assert by_lemma["seeds are the Decision IR"] == "refuted"


def changed_word(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("at", [0, 4, -4])
def test_every_seed_is_read(
    proven: Proven, copied: Path, at: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """A cell's word is another one; whoever changed it made the digests fit."""
    changed_word(copied / "seeds" / "pc_cells_in.bin", at)
    sealed(copied)
    code, found = answer(proven.arguments(copied), capfd)
    assert (code, found["result"]) == (1, "refuted")
    assert any("the word" in fault or "unused ids" in fault for fault in faults(found))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("rules.json", '"allow"', '"deny"'),
        ("rules.json", '"action":', '"action":"pass","action":'),
        ("classifier.json", '"app"', '"opp"'),
        ("classifier.json", '"reads_nodes":false', '"reads_nodes":0'),
        ("plan.json", '"rounds"', '"round"'),
        ("policies.json", "web", "wep"),
        ("policy.bpf.c", "pc_ingress", "pc_egress"),
        ("datapath/policy_run.h", "allowed", "denied"),
    ],
)
def test_other_files_are_those_of_the_policies(
    proven: Proven,
    copied: Path,
    name: str,
    old: str,
    new: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    text = (copied / name).read_text()
    assert old in text
    (copied / name).write_text(text.replace(old, new))
    sealed(copied)
    code, found = answer(proven.arguments(copied), capfd)
    assert (code, found["result"]) == (1, "refuted")
    assert f"{name} differs from what the policies give" in faults(found)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", ""])
def test_a_file_that_has_no_name_is_wrong_input(
    proven: Proven, copied: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = copied / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"][name] = "0" * 64
    path.write_text(json.dumps(manifest))
    assert run(proven.arguments(copied)) == 2
    said = capfd.readouterr().err
    assert "PC0905" in said and "has an invalid name" in said


def test_json_without_end_is_refuted(
    proven: Proven, copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (copied / "rules.json").write_text('{"rules":' + "[" * 900 + "]" * 900 + "}")
    sealed(copied)
    code, found = answer(proven.arguments(copied), capfd)
    assert code == 1 and "rules.json differs from what the policies give" in faults(found)


@pytest.mark.slow
def test_hooks_are_those_of_this_release(
    proven: Proven, copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    changed_word(copied / "hooks.bpf.o", 2000)
    sealed(copied)
    code, found = answer(proven.arguments(copied), capfd)
    assert (code, found["result"]) == (1, "refuted")
    assert "hooks.bpf.o differs from this release's object" in faults(found)


def test_another_program_is_executed(
    proven: Proven, copied: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The program of other policies has other code and does not follow this plan."""
    other, out = tmp_path / "other.yaml", tmp_path / "other"
    other.write_text(
        POLICY.replace("[Ingress]", "[Egress]")
        .replace("ingress:", "egress:")
        .replace("from:", "to:")
    )
    assert run(["compile", "-f", str(other), "-o", str(out)]) == 0
    shutil.copy(out / "policy.bpf.o", copied / "policy.bpf.o")
    sealed(copied)
    code, found = answer(proven.arguments(copied), capfd)
    assert (code, found["parts"][-1]["result"]) == (1, "refuted")


@pytest.mark.parametrize("size", [0, 100, 3000])
def test_a_file_that_is_not_an_object_is_refuted(
    proven: Proven, copied: Path, size: int, capfd: pytest.CaptureFixture[str]
) -> None:
    path = copied / "policy.bpf.o"
    path.write_bytes(path.read_bytes()[:size])
    sealed(copied)
    code, found = answer(proven.arguments(copied), capfd)
    assert (code, found["parts"][-1]["result"]) == (1, "refuted")
    assert faults(found)[0].startswith("policy.bpf.o: ")


def more_entries(manifest: dict[str, Any]) -> None:
    manifest["maps"][0]["entries"] += 1


def another_member(manifest: dict[str, Any]) -> None:
    manifest["surprise"] = True


def another_program(manifest: dict[str, Any]) -> None:
    manifest["programs"][0]["name"] = "pc_to_pod"


@pytest.mark.parametrize(
    ("change", "member"),
    [(more_entries, "maps"), (another_member, "surprise"), (another_program, "programs")],
)
def test_the_manifest_is_not_believed(
    proven: Proven,
    copied: Path,
    change: Callable[[dict[str, Any]], None],
    member: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    sealed(copied, change)
    code, found = answer(proven.arguments(copied), capfd)
    assert code == 1
    assert f"manifest.json: $.{member} differs from what the policies give" in faults(found)


def test_a_foreign_file_is_named(
    proven: Proven, copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (copied / "seeds" / "pc_class.bin").write_bytes(bytes(32))
    sealed(copied, lambda manifest: manifest["files"].update({"seeds/pc_class.bin": ""}))
    code, found = answer(proven.arguments(copied), capfd)
    assert code == 1
    assert "seeds/pc_class.bin does not belong to such a bundle" in faults(found)


def test_a_changed_file_without_new_digests_is_wrong_input(
    proven: Proven, copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    changed_word(copied / "policy.bpf.o", 600)
    assert run(proven.arguments(copied)) == 2
    assert "PC0905" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("backend", "said"), [("gcc", "'gcc' is not a valid Backend"), (None, "None is not a valid")]
)
def test_an_unknown_backend_is_wrong_input(
    proven: Proven, copied: Path, backend: object, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    sealed(copied, lambda manifest: manifest["options"].update(backend=backend))
    assert run(proven.arguments(copied)) == 2
    err = capfd.readouterr().err
    assert "PC0905" in err and said in err


def test_no_bundle_is_wrong_input(
    proven: Proven, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(proven.arguments(tmp_path)) == 2
    assert "PC0905" in capfd.readouterr().err


def test_a_node_s_bundle_is_for_that_node(
    proven: Proven, copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sealed(copied, lambda manifest: manifest.update(node="a"))
    assert run(proven.arguments(copied)) == 2
    assert "it was made for node a" in capfd.readouterr().err


def test_with_prove_an_unprovable_program_is_not_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rejecting.yaml").write_text(REJECTING)
    how = ["-f", str(tmp_path / "rejecting.yaml"), "-o", str(tmp_path / "out")]
    assert run(["compile", *how, "--prove"]) == 3
    assert "the bytecode is not proved" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run(["compile", *how]) == 0
    capfd.readouterr()
    asked = ["prove", str(tmp_path / "out"), "-f", str(tmp_path / "rejecting.yaml")]
    code, found = answer(asked, capfd)
    assert (code, found["result"]) == (3, "undecided")
    assert "that the model lacks" in faults(found)[0]


def test_stages_are_not_proved(proven: Proven, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", "-f", str(proven.policies), "--emit", "c", "--prove"]) == 2
    assert "--prove needs -o BUNDLE" in capfd.readouterr().err


def pod(name: str, node: str, address: str) -> str:
    return (
        "apiVersion: v1\nkind: Pod\n"
        f"metadata: {{name: {name}, namespace: shop, labels: {{app: web}}}}\n"
        f"spec: {{nodeName: {node}}}\nstatus: {{podIP: {address}}}\n---\n"
    )


def test_each_node_s_bundle_is_proved(
    proven: Proven, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster, out = tmp_path / "cluster.yaml", tmp_path / "out"
    cluster.write_text(pod("a", "one", "10.0.1.1") + pod("b", "two", "10.0.2.1"))
    given = ["-f", str(proven.policies), "--cluster", str(cluster)]
    cache = ["--cache", str(proven.cache)]
    assert run(["compile", *given, *cache, "-o", str(out), "--all-nodes", "--prove"]) == 0
    for node in ("one", "two"):
        bundle = out / "nodes" / node
        assert json.loads((bundle / "manifest.json").read_text())["proof"]["bytecode"] == "proved"
        assert (bundle / "proof.json").exists()
        code, found = answer(["prove", str(bundle), *given, *cache, "--node", node], capfd)
        assert (code, faults(found)) == (0, [])
        assert found["universe"]["kind"] == "cluster"
    assert run(["prove", str(out / "nodes" / "one"), *given, *cache, "--node", "two"]) == 2
    assert "it was made for node one" in capfd.readouterr().err


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Two pairs of keys, as openssl makes them: (private, public)."""
    folder = tmp_path_factory.mktemp("keys")
    found = {}
    for name in ("ours", "theirs"):
        private, public = folder / name, folder / f"{name}.pub"
        make = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(private)]
        subprocess.run(make, check=True, capture_output=True)
        write = ["openssl", "pkey", "-in", str(private), "-pubout", "-out", str(public)]
        subprocess.run(write, check=True, capture_output=True)
        found[name] = private, public
    return found


@pytest.fixture(scope="module")
def signed_once(
    proven: Proven,
    keys: dict[str, tuple[Path, Path]],
    tmp_path_factory: pytest.TempPathFactory,
    executions: list[ProvedPart],
) -> Path:
    """The bundle with its proof signed. Signing proves everything again, whatever the cache has."""
    bundle = Path(shutil.copytree(proven.bundle, tmp_path_factory.mktemp("signed") / "bundle"))
    before = len(executions)
    assert run([*proven.arguments(bundle), "--sign", str(keys["ours"][0])]) == 0
    assert len(executions) == before + 1
    return bundle


@pytest.fixture
def signed(signed_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(signed_once, tmp_path / "signed"))


def loaded(bundle: Path, *arguments: str) -> int:
    return run(["node", "load", str(bundle), "--endpoints", "/nonexistent.json", *arguments])


NEXT = "/nonexistent.json"
"""What a load complains about that went past the proof."""


def test_a_signed_proof_is_taken(
    signed: Path, keys: dict[str, tuple[Path, Path]], capfd: pytest.CaptureFixture[str]
) -> None:
    required = ["--require-proof", str(keys["theirs"][1]), "--require-proof", str(keys["ours"][1])]
    assert loaded(signed, *required) == 2
    assert NEXT in capfd.readouterr().err


def test_a_proof_signed_by_an_unknown_key_is_refused(
    signed: Path, keys: dict[str, tuple[Path, Path]], capfd: pytest.CaptureFixture[str]
) -> None:
    assert loaded(signed, "--require-proof", str(keys["theirs"][1])) == 2
    said = capfd.readouterr().err
    assert "no given key matches a signature" in said and NEXT not in said


def test_without_a_signed_proof_nothing_is_loaded(
    proven: Proven, keys: dict[str, tuple[Path, Path]], capfd: pytest.CaptureFixture[str]
) -> None:
    assert loaded(proven.bundle, "--require-proof", str(keys["ours"][1])) == 2
    said = capfd.readouterr().err
    assert "has no proof.dsse.json" in said and "policyc prove BUNDLE" in said and NEXT not in said


def test_the_proof_of_another_bundle_is_not_taken(
    signed: Path, keys: dict[str, tuple[Path, Path]], capfd: pytest.CaptureFixture[str]
) -> None:
    changed_word(signed / "seeds" / "pc_cells_in.bin", 0)
    sealed(signed)
    assert loaded(signed, "--require-proof", str(keys["ours"][1])) == 2
    said = capfd.readouterr().err
    assert "the proof is for another bundle" in said and NEXT not in said


def forged_payload(envelope: dict[str, Any]) -> None:
    payload = base64.b64decode(envelope["payload"]).replace(b"symbolic", b"cluster")
    envelope["payload"] = base64.b64encode(payload).decode()


def forged_type(envelope: dict[str, Any]) -> None:
    envelope["payloadType"] = "text/plain"


def no_signature(envelope: dict[str, Any]) -> None:
    envelope["signatures"] = []


def bad_base64(envelope: dict[str, Any]) -> None:
    envelope["signatures"][0]["sig"] = "?"


@pytest.mark.parametrize("forge", [forged_payload, forged_type, no_signature, bad_base64])
def test_a_forged_envelope_is_refused(
    signed: Path,
    keys: dict[str, tuple[Path, Path]],
    forge: Callable[[dict[str, Any]], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = signed / "proof.dsse.json"
    envelope = json.loads(path.read_text())
    forge(envelope)
    path.write_text(json.dumps(envelope))
    assert loaded(signed, "--require-proof", str(keys["ours"][1])) == 2
    said = capfd.readouterr().err
    assert "proof.dsse.json" in said and NEXT not in said


@pytest.mark.parametrize("text", ["", "not JSON", "[]", '{"payload": 1}', '{"payloadType": "x"}'])
def test_an_invalid_envelope_is_refused(
    signed: Path,
    keys: dict[str, tuple[Path, Path]],
    text: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (signed / "proof.dsse.json").write_text(text)
    assert loaded(signed, "--require-proof", str(keys["ours"][1])) == 2
    said = capfd.readouterr().err
    assert "proof.dsse.json" in said and NEXT not in said and "Traceback" not in said


def test_openssl_agrees_about_the_signature(
    signed: Path, keys: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    """The bytes of DSSE, made here by its document, and a verifier that is not ours."""
    envelope = json.loads((signed / "proof.dsse.json").read_text())
    kind, payload = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"])
    text = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    (tmp_path / "text").write_bytes(text)
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    verify = ["openssl", "pkeyutl", "-verify", "-rawin", "-in", str(tmp_path / "text")]
    how = ["-sigfile", str(tmp_path / "sig"), "-pubin", "-inkey", str(keys["ours"][1])]
    subprocess.run([*verify, *how], check=True, capture_output=True)


@pytest.mark.parametrize("which", ["public", "text", "missing", "rsa"])
def test_a_wrong_key_is_wrong_input(
    keys: dict[str, tuple[Path, Path]],
    tmp_path: Path,
    which: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Said before anything is proved."""
    path = tmp_path / "key"
    if which == "public":
        path = keys["ours"][1]
    elif which == "text":
        path.write_text("secret")
    elif which == "rsa":
        make = ["openssl", "genpkey", "-algorithm", "rsa", "-out", str(path)]
        subprocess.run(make, check=True, capture_output=True)
    assert run(["prove", "/nonexistent", "-f", "/nonexistent", "--sign", str(path)]) == 2
    assert str(path) in capfd.readouterr().err


def test_an_unproved_bundle_is_not_signed(
    proven: Proven, copied: Path, keys: dict[str, tuple[Path, Path]]
) -> None:
    changed_word(copied / "seeds" / "pc_cells_in.bin", 0)
    sealed(copied)
    assert run([*proven.arguments(copied), "--sign", str(keys["ours"][0])]) == 1
    assert not (copied / "proof.dsse.json").exists()


def test_a_load_proves_first(
    proven: Proven,
    copied: Path,
    capfd: pytest.CaptureFixture[str],
    executions: list[ProvedPart],
) -> None:
    before = len(executions)
    assert loaded(proven.bundle, "--reprove", str(proven.policies)) == 2
    assert len(executions) == before + 1
    assert NEXT in capfd.readouterr().err
    changed_word(copied / "seeds" / "pc_cells_in.bin", 0)
    sealed(copied)
    assert loaded(copied, "--reprove", str(proven.policies)) == 2
    said = capfd.readouterr().err
    assert "PC0920" in said and "refuted" in said and NEXT not in said
    assert loaded(copied, "--reprove-cluster", str(proven.policies)) == 2
    assert "--reprove-cluster needs --reprove" in capfd.readouterr().err
