# SPDX-License-Identifier: Apache-2.0
"""Write a bundle (docs/bundle-format.md): whole or not at all, and the same bytes for the same input."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from policyc.backends.ebpf_c.seeds import Seed
from policyc.compiler.driver.build_cache import BuildCache
from policyc.compiler.driver.bundle_policies import POLICIES_FILE
from policyc.compiler.driver.codes import CANNOT_WRITE, NOT_A_BUNDLE
from policyc.compiler.driver.json_lines import json_text
from policyc.compiler.driver.node_tables import classifier_json, rules_json
from policyc.compiler.driver.objects import (
    DATAPATH,
    datapath_files,
)
from policyc.compiler.driver.pipeline import Decided, Emitted
from policyc.ir.decision import DecisionIR
from policyc.ir.errors import InputError
from policyc.ir.spans import Span

SCHEMA = "policyc.dev/bundle/v1"
MANIFEST = "manifest.json"
MINIMUM_KERNEL = "6.1"
HOOKS = ("pc_from_pod", "pc_to_pod")
POLICY_PROGRAM = "pc_policy_run"


@dataclass(frozen=True)
class Provenance:
    """What a bundle was made from: (path as given, sha256) per input, the options, the profile.

    `policies` is the text of policies.json, "" to write none. `node` is the node whose subjects the
    bundle is for, "" for all.
    """

    inputs: tuple[tuple[str, str], ...]
    options: Mapping[str, Any]
    proof: Mapping[str, Any]
    policies: str = ""
    profile: str = "kubernetes"
    node: str = ""


def check_target(out: Path) -> None:
    """Refuse to replace what is not a bundle, before any work is done."""
    try:
        if not out.exists() and not out.is_symlink():
            return
    except OSError as failure:  # not even its parent may be looked into
        raise cannot_write(out, failure) from failure
    try:
        known = json.loads((out / MANIFEST).read_text("utf-8"))["schema"]
    except (OSError, ValueError, KeyError, TypeError):
        known = None
    if known != SCHEMA:
        finding = NOT_A_BUNDLE.at(Span(str(out), 0, 0), target=out)
        raise InputError([finding.help("name a path that does not exist, or an older bundle")])


def write_bundle(
    out: Path,
    decided: Decided,
    emitted: Emitted,
    provenance: Provenance,
    cache: BuildCache | None = None,
) -> None:
    """Make the bundle beside its target, then put it in place by a rename."""
    check_target(out)
    with placed(out) as work:
        for name, data in bundle_files(decided, emitted, provenance, cache).items():
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_bytes(data)
        open_to_all(work)


@contextmanager
def placed(out: Path) -> Iterator[Path]:
    """A new directory beside `out` to be filled; it takes the place of `out` if all went well."""
    out = out.resolve()  # behind a link, what it leads to is replaced, and not the link
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as failure:
        raise cannot_write(out, failure) from failure
    try:
        yield work
        _replace(out, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def cannot_write(out: Path, failure: OSError) -> InputError:
    """The finding for an output that cannot be written."""
    reason = failure.strerror or str(failure)
    return InputError([CANNOT_WRITE.at(Span(str(out), 0, 0), target=out, reason=reason)])


def _replace(out: Path, work: Path) -> None:
    """A reader sees the old bundle or the new one, but for the instant between two renames."""
    old = work.with_name(f"{work.name}.old")
    if out.exists():
        out.rename(old)
    work.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def open_to_all(work: Path) -> None:
    """A bundle has the same modes whatever the umask; it holds no secrets."""
    for path in (work, *work.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def bundle_files(
    decided: Decided, emitted: Emitted, provenance: Provenance, cache: BuildCache | None = None
) -> dict[str, bytes]:
    """Every file of the bundle, by its path in it."""
    files = {f"{DATAPATH}/{name}": data for name, data in datapath_files().items()}
    files |= {
        "policy.bpf.c": emitted.c.encode(),
        "policy.bpf.o": policy_object(decided.decision, emitted, cache),
        "hooks.bpf.o": emitted.target.hooks_object(cache),
        "plan.json": json_text(emitted.plan.to_json()).encode(),
        "classifier.json": json_text(classifier_json(decided.decision)).encode(),
        "rules.json": json_text(rules_json(decided.decision)).encode(),
    }
    if provenance.policies:
        files[POLICIES_FILE] = provenance.policies.encode()
    files |= seed_files(emitted)
    files[MANIFEST] = manifest_file(
        {name: digest(data) for name, data in files.items()},
        emitted,
        provenance,
        emitted.target.release(cache),
    )
    return files


def policy_object(decision: DecisionIR, emitted: Emitted, cache: BuildCache | None) -> bytes:
    """The object of the policy program, by whoever compiles it."""
    target = emitted.target
    return target.policy_object(decision, emitted.plan, emitted.c, emitted.seeds, cache)


def seed_files(emitted: Emitted) -> dict[str, bytes]:
    """The seeds that hold anything."""
    return {f"seeds/{seed.map_name}.bin": seed.data for seed in emitted.seeds if seed.data}


def digest(data: bytes) -> str:
    """The digest by which the manifest names a file's content."""
    return hashlib.sha256(data).hexdigest()


def manifest_file(
    digests: Mapping[str, str],
    emitted: Emitted,
    provenance: Provenance,
    release: Mapping[str, str],
) -> bytes:
    """manifest.json, from the digests of all other files; `release` says who compiled."""
    value = _manifest(digests, emitted, provenance, release)
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    return text.encode()


def _manifest(
    digests: Mapping[str, str],
    emitted: Emitted,
    provenance: Provenance,
    release: Mapping[str, str],
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "policyc": metadata.version("policyc"),
        **release,
        "minimum_kernel": MINIMUM_KERNEL,
        "profile": provenance.profile,
        **({"node": provenance.node} if provenance.node else {}),
        "inputs": [{"path": path, "sha256": digest} for path, digest in provenance.inputs],
        "options": {
            **provenance.options,
            "backend": emitted.target.backend.value,
            "rule_counters": emitted.target.counters.value,
        },
        "proof": dict(provenance.proof),
        "programs": [
            *({"name": name, "object": "hooks.bpf.o"} for name in HOOKS),
            {"name": POLICY_PROGRAM, "object": "policy.bpf.o"},
        ],
        "maps": [_map(seed) for seed in emitted.seeds],
        "files": dict(digests),
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
