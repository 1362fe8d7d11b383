# SPDX-License-Identifier: Apache-2.0
"""Write a bundle (docs/bundle-format.md): whole or not at all, and the same bytes for the same input."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from policyc.backends.ebpf_c.clang import clang_version, compile_object
from policyc.backends.ebpf_c.seeds import Seed
from policyc.compiler.driver.bundle_policies import POLICIES_FILE
from policyc.compiler.driver.codes import CANNOT_WRITE, NOT_A_BUNDLE
from policyc.compiler.driver.node_tables import classifier_json, rules_json
from policyc.compiler.driver.pipeline import Decided, Emitted
from policyc.ir.errors import InputError
from policyc.ir.spans import Span

SCHEMA = "policyc.dev/bundle/v1"
MINIMUM_KERNEL = "6.1"
HOOKS = ("pc_from_pod", "pc_to_pod")
POLICY_PROGRAM = "pc_policy_run"


@dataclass(frozen=True)
class Provenance:
    """What a bundle was made from: (path as given, sha256) per input, the options, the profile.

    `policies` is the text of policies.json, "" to write none.
    """

    inputs: tuple[tuple[str, str], ...]
    options: Mapping[str, Any]
    proof: Mapping[str, Any]
    policies: str = ""
    profile: str = "kubernetes"


def check_target(out: Path) -> None:
    """Refuse to replace what is not a bundle, before any work is done."""
    try:
        if not out.exists() and not out.is_symlink():
            return
    except OSError as failure:  # not even its parent may be looked into
        raise _cannot_write(out, failure) from failure
    try:
        known = json.loads((out / "manifest.json").read_text("utf-8"))["schema"]
    except (OSError, ValueError, KeyError, TypeError):
        known = None
    if known != SCHEMA:
        finding = NOT_A_BUNDLE.at(Span(str(out), 0, 0), target=out)
        raise InputError([finding.help("name a path that does not exist, or an older bundle")])


def write_bundle(out: Path, decided: Decided, emitted: Emitted, provenance: Provenance) -> None:
    """Make the bundle beside its target, then put it in place by a rename."""
    check_target(out)
    out = out.resolve()  # behind a link, what it leads to is replaced, and not the link
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as failure:
        raise _cannot_write(out, failure) from failure
    try:
        _fill(work, decided, emitted, provenance)
        _open_to_all(work)
        _replace(out, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _cannot_write(out: Path, failure: OSError) -> InputError:
    reason = failure.strerror or str(failure)
    return InputError([CANNOT_WRITE.at(Span(str(out), 0, 0), target=out, reason=reason)])


def _replace(out: Path, work: Path) -> None:
    """A reader sees the old bundle or the new one, but for the instant between two renames."""
    old = work.with_name(f"{work.name}.old")
    if out.exists():
        out.rename(old)
    work.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def _open_to_all(work: Path) -> None:
    """A bundle has the same modes whatever the umask; it holds no secrets."""
    for path in (work, *work.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _fill(work: Path, decided: Decided, emitted: Emitted, provenance: Provenance) -> None:
    _copy_datapath(work / "datapath")
    (work / "policy.bpf.c").write_text(emitted.c, encoding="utf-8")
    compile_object(work, "policy.bpf.c", "datapath", "policy.bpf.o")
    (work / "hooks.bpf.o").write_bytes(_hooks_object())
    _write_json(work / "plan.json", emitted.plan.to_json())
    _write_json(work / "classifier.json", classifier_json(decided.decision))
    _write_json(work / "rules.json", rules_json(decided.decision))
    if provenance.policies:
        (work / POLICIES_FILE).write_text(provenance.policies, encoding="utf-8")
    (work / "seeds").mkdir()
    for seed in emitted.seeds:
        if seed.data:
            (work / "seeds" / f"{seed.map_name}.bin").write_bytes(seed.data)
    _write_json(work / "manifest.json", _manifest(work, emitted.seeds, provenance))


@cache
def _hooks_object() -> bytes:
    """The hooks' object: the same for every policy, so compiled once a process."""
    with tempfile.TemporaryDirectory(prefix="policyc-hooks-") as folder:
        work = Path(folder)
        _copy_datapath(work / "datapath")
        compile_object(work, "datapath/hooks.bpf.c", "datapath", "hooks.bpf.o")
        return (work / "hooks.bpf.o").read_bytes()


def _copy_datapath(target: Path) -> None:
    """The C that the objects are made from travels with them."""
    target.mkdir()
    for item in resources.files("policyc.runtime.datapath").iterdir():
        if item.name.endswith((".h", ".c")):
            (target / item.name).write_bytes(item.read_bytes())


def _manifest(work: Path, seeds: Iterable[Seed], provenance: Provenance) -> dict[str, Any]:
    files = sorted(path for path in work.rglob("*") if path.is_file())
    return {
        "schema": SCHEMA,
        "policyc": metadata.version("policyc"),
        "clang": clang_version(),
        "minimum_kernel": MINIMUM_KERNEL,
        "profile": provenance.profile,
        "inputs": [{"path": path, "sha256": digest} for path, digest in provenance.inputs],
        "options": dict(provenance.options),
        "proof": dict(provenance.proof),
        "programs": [
            *({"name": name, "object": "hooks.bpf.o"} for name in HOOKS),
            {"name": POLICY_PROGRAM, "object": "policy.bpf.o"},
        ],
        "maps": [_map(seed) for seed in seeds],
        "files": {
            str(path.relative_to(work)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        },
    }


def _map(seed: Seed) -> dict[str, Any]:
    return {
        "name": seed.map_name,
        "object": "policy.bpf.o",
        "kind": seed.kind,
        "entries": seed.entries,
        "seed": f"seeds/{seed.map_name}.bin" if seed.data else None,
        "key_words": seed.key_bytes // 4,
        "value_words": len(seed.fields),
        "fields": list(seed.fields),
    }


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
