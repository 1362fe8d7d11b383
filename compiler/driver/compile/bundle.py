# SPDX-License-Identifier: Apache-2.0
"""Write a bundle (docs/bundle-format.md): atomically, and with the same bytes for the same input."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from policyc.backends.ebpf_c.seeds import Data, Seed
from policyc.compiler.driver.cache.build_cache import BuildCache
from policyc.compiler.driver.codes import CANNOT_WRITE, NOT_A_BUNDLE
from policyc.compiler.driver.compile.emission import Emitted
from policyc.compiler.driver.compile.json_lines import json_text
from policyc.compiler.driver.compile.node_tables import (
    classifier_json,
    rules_json,
)
from policyc.compiler.driver.compile.objects import (
    DATAPATH,
    datapath_files,
)
from policyc.compiler.driver.compile.policy_texts import POLICIES_FILE
from policyc.compiler.driver.installed import release_of
from policyc.ir.decision import DecisionIR
from policyc.ir.errors import InputError
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.spans import Span

SCHEMA = "policyc.dev/bundle/v1"
MANIFEST = "manifest.json"
CLASSIFIER_FILE, RULES_FILE, PROOF_FILE = "classifier.json", "rules.json", "proof.json"
MINIMUM_KERNEL = "6.1"
HOOKS = (
    "pc_from_pod",
    "pc_to_pod",
    "pc_from_uplink",
    "pc_to_uplink",
    "pc_from_tunnel",
    "pc_from_reasm",
    "pc_to_route",
    "pc_netkit",
    "pc_from_slave",
    "pc_to_slave",
)
XDP_PROGRAMS = ("pc_xdp_from",)
PREROUTING_PROGRAMS = ("pc_prerouting",)
SLAVE_PROGRAMS = tuple(
    f"pc_{where}_{way}" for where in ("slave", "parent", "node") for way in ("out", "in")
)
SOCKET_HOOKS = tuple(
    f"pc_{kind}{family}"
    for kind in ("connect", "sendmsg", "recvmsg", "getpeer")
    for family in (4, 6)
)
BYPASS_PROGRAMS = ("pc_bypass_add", "pc_bypass_msg")
POLICY_PROGRAM, POLICY_OBJECT = "pc_policy_run", "policy.bpf.o"
SOCKET_PROGRAMS = ("pc_policy_conn4", "pc_policy_conn6", "pc_bypass_deny")


Text = str | bytes
"""The text of a file, as str or already in UTF-8."""

Prover = Callable[[Emitted, Mapping[str, Data]], str]
"""Proves the files of a bundle, and gives the text of its proof; raises if they are not proved."""


@dataclass(frozen=True)
class Provenance:
    """The sources of a bundle: (path as given, sha256) per input, the options, the profile.

    `policies` is the text of policies.json, "" to write none. `node` is the node whose subjects the
    bundle is for, "" for all.
    """

    inputs: tuple[tuple[str, str], ...]
    options: Mapping[str, Any]
    proof: Mapping[str, Any]
    policies: Text = ""
    profile: str = "kubernetes"
    node: str = ""


def proof_json(universe: str, is_bytecode_proved: bool = False) -> dict[str, str]:
    """The manifest's entry about the proof; `universe` is the universe of the endpoints."""
    return {
        "decision_ir_equals_policy_ir": "proved",
        "bytecode": "proved" if is_bytecode_proved else "not asked",
        "universe": universe,
    }


def check_target(out: Path) -> None:
    """Refuse to replace a directory that is not a bundle, before any work is done."""
    try:
        if not out.exists() and not out.is_symlink():
            return
    except OSError as failure:  # not even its parent may be read
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
    texts: Mapping[str, Text],
    emitted: Emitted,
    provenance: Provenance,
    cache: BuildCache | None = None,
    prover: Prover | None = None,
) -> None:
    """Make the bundle beside its target, then put it in place by a rename.

    `texts` are the files that the node reads beside the maps (`node_texts`).
    """
    check_target(out)
    with placed(out) as work:
        files = bundle_files(texts, emitted, provenance, cache, prover)
        for folder in {(work / name).parent for name in files} - {work}:
            folder.mkdir()
        for name, data in files.items():
            (work / name).write_bytes(data)
        open_to_all(work)


@contextmanager
def placed(out: Path) -> Iterator[Path]:
    """A new directory beside `out` to be filled; it replaces `out` on success."""
    out = out.resolve()  # of a link, the target is replaced, and not the link
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        work = _new_folder(out)
    except OSError as failure:
        raise cannot_write(out, failure) from failure
    try:
        yield work
        _replace(out, work)
    finally:
        _remove(work)


def _new_folder(out: Path) -> Path:
    """A new directory beside `out`, private to this run."""
    while True:
        path = out.with_name(f".{out.name}.{os.urandom(6).hex()}")
        try:
            path.mkdir(0o700)
        except FileExistsError:
            continue
        return path


def cannot_write(out: Path, failure: OSError) -> InputError:
    """The finding for an output that cannot be written."""
    reason = failure.strerror or str(failure)
    return InputError([CANNOT_WRITE.at(Span(str(out), 0, 0), target=out, reason=reason)])


def _replace(out: Path, work: Path) -> None:
    """A reader sees the old bundle or the new one, except for the instant between two renames."""
    old = work.with_name(f"{work.name}.old")
    if out.exists():
        out.rename(old)
    work.rename(out)
    _remove(old)


def _remove(folder: Path) -> None:
    """Remove a directory with its contents, as far as possible, without following links."""
    with suppress(OSError):
        for _, folders, names, handle in os.fwalk(folder, topdown=False):
            for name in (*names, *folders):
                with suppress(OSError):
                    _remove_entry(name, handle)
        folder.rmdir()


def _remove_entry(name: str, handle: int) -> None:
    """Remove a file, a link or an empty directory of the directory that is open."""
    try:
        os.unlink(name, dir_fd=handle)
    except IsADirectoryError:
        os.rmdir(name, dir_fd=handle)


def open_to_all(work: Path) -> None:
    """A bundle has the same modes whatever the umask; it holds no secrets."""
    for path in (work, *work.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def node_texts(decision: DecisionIR) -> dict[str, str]:
    """The classifier and the rules, by the names of their files."""
    return {
        CLASSIFIER_FILE: json_text(classifier_json(decision)),
        RULES_FILE: json_text(rules_json(decision)),
    }


def bundle_files(
    texts: Mapping[str, Text],
    emitted: Emitted,
    provenance: Provenance,
    cache: BuildCache | None = None,
    prover: Prover | None = None,
) -> dict[str, Data]:
    """Every file of the bundle, by its path in it; with the proof, if one is requested."""
    files: dict[str, Data] = {f"{DATAPATH}/{name}": data for name, data in datapath_files().items()}
    files |= {
        "policy.bpf.c": emitted.c.encode(),
        POLICY_OBJECT: policy_object(emitted, cache),
        **emitted.target.node_objects(cache),
        "plan.json": json_text(emitted.plan.to_json()).encode(),
        **{name: encoded(text) for name, text in texts.items()},
    }
    if provenance.policies:
        files[POLICIES_FILE] = encoded(provenance.policies)
    files |= seed_files(emitted)
    if prover is not None:
        files[PROOF_FILE] = prover(emitted, files).encode()
    files[MANIFEST] = manifest_file(
        {name: digest(data) for name, data in files.items()},
        emitted,
        provenance,
        emitted.target.release(cache),
    )
    return files


def encoded(text: Text) -> bytes:
    """The bytes of a file."""
    return text if isinstance(text, bytes) else text.encode()


def policy_object(emitted: Emitted, cache: BuildCache | None) -> bytes:
    """The object of the policy program, by the chosen compiler."""
    target = emitted.target
    return target.policy_object(
        emitted.layout.verdicts, emitted.plan, emitted.c, emitted.seeds, cache
    )


def seed_files(emitted: Emitted) -> dict[str, Data]:
    """The seeds that are not empty."""
    return {f"seeds/{seed.map_name}.bin": seed.data for seed in emitted.seeds if seed.data}


def digest(data: Data) -> str:
    """The digest by which the manifest names a file's content."""
    return hashlib.sha256(data).hexdigest()


def manifest_file(
    digests: Mapping[str, str],
    emitted: Emitted,
    provenance: Provenance,
    release: Mapping[str, str],
) -> bytes:
    """manifest.json, from the digests of all other files; `release` names the compiler."""
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
        "policyc": release_of("policyc"),
        **release,
        "minimum_kernel": MINIMUM_KERNEL,
        "profile": provenance.profile,
        **({"node": provenance.node} if provenance.node else {}),
        "inputs": [{"path": path, "sha256": digest} for path, digest in provenance.inputs],
        "options": {
            **provenance.options,
            "backend": emitted.target.backend.value,
            "rule_counters": emitted.target.counters.value,
            **({"socket_programs": True} if emitted.target.at_sockets else {}),
        },
        "proof": dict(provenance.proof),
        "programs": [
            *({"name": name, "object": "hooks.bpf.o"} for name in HOOKS),
            *({"name": name, "object": "sockets.bpf.o"} for name in SOCKET_HOOKS),
            *({"name": name, "object": "bypass.bpf.o"} for name in BYPASS_PROGRAMS),
            *({"name": name, "object": "xdp.bpf.o"} for name in XDP_PROGRAMS),
            *({"name": name, "object": "slaves.bpf.o"} for name in SLAVE_PROGRAMS),
            *({"name": name, "object": "prerouting.bpf.o"} for name in PREROUTING_PROGRAMS),
            {"name": POLICY_PROGRAM, "object": POLICY_OBJECT},
            *({"name": name, "object": POLICY_OBJECT} for name in socket_programs(emitted)),
        ],
        "maps": [_map(seed) for seed in emitted.seeds],
        "files": dict(digests),
    }


def socket_programs(emitted: Emitted) -> tuple[str, ...]:
    """The programs at sockets that the policy's object has."""
    return SOCKET_PROGRAMS if emitted.target.at_sockets else ()


def _map(seed: Seed) -> dict[str, Any]:
    return {
        "name": seed.map_name,
        "object": POLICY_OBJECT,
        "kind": seed.kind,
        "entries": seed.entries,
        "seed": f"seeds/{seed.map_name}.bin" if seed.data else None,
        "key_words": seed.key_bytes // 4,
        "value_words": len(seed.fields),
        "fields": list(seed.fields),
    }
