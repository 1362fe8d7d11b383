# SPDX-License-Identifier: Apache-2.0
"""Prove: show that a bundle enforces the given policies. Nothing stored in the bundle is trusted.

Policies and cluster are read and decided again. The result is compared, byte by byte, with all files of
the bundle except its policy program. The program and the seeds are proved as they are
(`bytecode_proof.py`). Only the backend and the counters are taken from the manifest, as a guess at the
lookup plan: a wrong guess gives another plan, for which the lemmas do not hold.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policyc.backends.ebpf_c.bare import bare_text
from policyc.backends.ebpf_c.seeds import Data
from policyc.compiler.driver.cache.build_cache import BuildCache
from policyc.compiler.driver.codes import BUNDLE_BROKEN
from policyc.compiler.driver.compile.bundle import (
    CLASSIFIER_FILE,
    MANIFEST,
    POLICY_OBJECT,
    PROOF_FILE,
    RULES_FILE,
    Provenance,
    digest,
    encoded,
    manifest_file,
    node_texts,
    seed_files,
)
from policyc.compiler.driver.compile.bytecode_proof import (
    ASSUMPTIONS,
    SOCKET_ASSUMPTION,
    ProvedGeneration,
    prove_generation,
    solvers_of,
)
from policyc.compiler.driver.compile.compile import (
    Prepared,
    Progress,
    prepare,
    provenance,
)
from policyc.compiler.driver.compile.emission import (
    Emitted,
    emit_all,
)
from policyc.compiler.driver.compile.inputs import Inputs
from policyc.compiler.driver.compile.json_lines import json_text
from policyc.compiler.driver.compile.objects import (
    DATAPATH,
    datapath_files,
)
from policyc.compiler.driver.compile.policy_texts import POLICIES_FILE
from policyc.compiler.driver.compile.proof_file import as_loaded
from policyc.compiler.driver.compile.target import HOOKS as HOOKS_OBJECT
from policyc.compiler.driver.compile.target import (
    NODE_OBJECTS,
    Backend,
    Target,
)
from policyc.compiler.driver.installed import release_of
from policyc.ir.counts import cluster_words
from policyc.ir.errors import HostError, InputError
from policyc.ir.plan import Counters
from policyc.ir.results.common import UniverseUsed
from policyc.ir.results.prove import ProofStatus, ProvedPart, ProveResult
from policyc.ir.spans import Span
from policyc.runtime.bundle.bundle import (
    Bundle,
    read_bundle,
)
from policyc.runtime.bundle.dsse import seal
from policyc.runtime.bundle.signed_proof import (
    PAYLOAD_TYPE,
    PROVED,
    SCHEMA,
)
from policyc.runtime.errors import InputError as BadBundle
from policyc.verifier.smt.solver_choice import Choice
from policyc.verifier.translation.generation import LoadedMap

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

DECISIONS = "Decision IR is the policies"
TABLES, HOOKS = "files of the node", "objects of the node"
_SOURCE = "policy.bpf.c"
_FROM = ("inputs", "options", "files", "proof", "policyc", "clang", "llvm")
"""The manifest's entries about a bundle's origin, and digests: they do not affect the load."""
_SEARCHED = ("pc_nodes", "pc_cells", "pc_buckets", "pc_usual", "pc_root", "pc_cidr")
"""The prefixes of the names of maps that the data lemma reads."""
_WITH_PLACES = (RULES_FILE, CLASSIFIER_FILE, POLICIES_FILE)


@dataclass(frozen=True)
class ToProve:
    """A bundle, its files by name, and the input and decisions to compare it with."""

    bundle: Bundle
    files: Mapping[str, bytes]
    manifest: Mapping[str, Any]
    ready: Prepared
    emitted: Emitted
    provenance: Provenance


def read_to_prove(
    path: str, inputs: Inputs, node: str | None, progress: Progress, cache: BuildCache | None = None
) -> ToProve:
    """Read the bundle, read and decide the policies; InputError for either, with its place.

    `node` is the node that the bundle must be for, empty for all nodes; None if it may be any.
    """
    try:
        bundle = read_bundle(Path(path))
        files = {name: (bundle.path / name).read_bytes() for name in bundle.digests}
        written = (bundle.path / MANIFEST).read_bytes()
        manifest = _value(written)
    except BadBundle as failure:
        raise _broken(path, failure.message, failure.hint) from failure
    except (OSError, ValueError, RecursionError) as failure:
        raise _broken(path, str(failure), "") from failure
    found = {name: digest(data) for name, data in files.items()}
    if digest(written) != bundle.digest or found != bundle.digests:
        raise _broken(path, "it was changed while it was read", "")
    if not isinstance(manifest, dict):
        raise _broken(path, f"{MANIFEST} is no object", "")
    if node is None:
        node = bundle.node
    if node != bundle.node:
        made = f"for node {bundle.node}" if bundle.node else "for all nodes"
        raise _broken(path, f"it was made {made}", "give that node with --node, or remove --node")
    target = _target(path, manifest)
    ready = prepare(inputs, progress, cache, node, is_written=False, target=target)
    progress("emitting")
    emitted = emit_all(ready.decided.decision, target=target)
    return ToProve(bundle, files, manifest, ready, emitted, provenance(ready, node))


def _target(path: str, manifest: Mapping[str, Any]) -> Target:
    """The target that the bundle was probably compiled for."""
    options = manifest.get("options")
    try:
        if not isinstance(options, dict):
            raise ValueError("$.options: expected an object")
        return Target(
            Backend(options.get("backend")),
            Counters(options.get("rule_counters")),
            options.get("socket_programs") is True,
        )
    except ValueError as failure:
        hint = "compile it again with this release"
        raise _broken(path, f"{MANIFEST}: {failure}", hint) from failure


def _broken(path: str, problem: str, hint: str) -> InputError:
    finding = BUNDLE_BROKEN.at(Span(path, 0, 0), name=path, problem=problem)
    return InputError([finding.help(hint) if hint else finding])


def prove_bundle(
    given: ToProve, solver: Choice, progress: Progress, cache: BuildCache | None = None
) -> ProveResult:
    """All parts of the proof, the quick ones first; for each, its faults."""
    parts = [_decisions(given), _tables(given), _node_objects(given, cache)]
    progress("proving the bytecode")
    generation = ProvedGeneration(
        given.ready.decided.decision,
        given.emitted.plan,
        given.files[POLICY_OBJECT],
        given.files[HOOKS_OBJECT],
        tuple(_loaded_maps(given)),
        tuple(given.files[name] for name in given.emitted.target.shared_objects),
    )
    parts += prove_generation(generation, solver, cache)
    if cache is not None:
        cache.trim()
    return ProveResult(
        str(given.bundle.path),
        _universe(given.ready),
        tuple(parts),
        tuple(dict.fromkeys((*solvers_of(Choice.Z3), *solvers_of(solver)))),
        (*ASSUMPTIONS, *([SOCKET_ASSUMPTION] if given.emitted.target.at_sockets else [])),
    )


def _universe(ready: Prepared) -> UniverseUsed:
    cluster = ready.read.cluster
    if cluster is None:
        return UniverseUsed("symbolic", "every pod, node and address that could exist")
    return UniverseUsed("cluster", cluster_words(cluster.universe))


def _decisions(given: ToProve) -> ProvedPart:
    """`prepare` raises if it is not proved."""
    what = "for every flow, the decisions equal the verdicts of the reference semantics"
    return ProvedPart(DECISIONS, what, ProofStatus.PROVED, given.ready.proof.obligations)


def _loaded_maps(given: ToProve) -> Iterator[LoadedMap]:
    """The maps as the node will make them; `_tables` reports maps that differ from their declaration."""
    for seed in given.emitted.seeds:
        data = given.files.get(f"seeds/{seed.map_name}.bin", b"")
        yield LoadedMap(*_shape(as_loaded(seed)), data)


def _shape(each: LoadedMap) -> tuple[str, str, int, int, int]:
    return each.name, each.kind, each.entries, each.key_bytes, each.value_bytes


def _tables(given: ToProve) -> ProvedPart:
    """Every file but the objects is this release's output for these policies; there are no others."""
    wanted = _wanted_files(given)
    faults = [f"{name} is missing" for name in sorted(wanted.keys() - given.files.keys())]
    faults += [
        f"{name} differs from what the policies give"
        for name in sorted(wanted.keys() & given.files.keys())
        if not _is_proved_as_data(name) and not _is_same(given, name, bytes(wanted[name]))
    ]
    others = {MANIFEST, PROOF_FILE, POLICY_OBJECT, *NODE_OBJECTS}
    foreign = given.files.keys() - wanted.keys() - others
    faults += [f"{name} does not belong to such a bundle" for name in sorted(foreign)]
    faults += _wrong_members(given)
    what = "the other files that the node reads, and the manifest's maps and programs"
    status = ProofStatus.REFUTED if faults else ProofStatus.PROVED
    return ProvedPart(TABLES, what, status, 0 if faults else len(wanted), tuple(faults))


def _wanted_files(given: ToProve) -> dict[str, Data]:
    """The required files of the bundle beside objects and the manifest."""
    ready, emitted = given.ready, given.emitted
    texts = node_texts(ready.decided.decision) | ready.texts
    files: dict[str, Data] = {f"{DATAPATH}/{name}": data for name, data in datapath_files().items()}
    files |= {name: encoded(text) for name, text in texts.items()}
    files |= {
        _SOURCE: emitted.c.encode(),
        "plan.json": json_text(emitted.plan.to_json()).encode(),
        POLICIES_FILE: encoded(given.provenance.policies),
    }
    return files | seed_files(emitted)


def _is_proved_as_data(name: str) -> bool:
    """A seed that the data lemma reads: its bytes may differ, if they mean the same."""
    return name.startswith(tuple(f"seeds/{each}" for each in _SEARCHED))


def _is_same(given: ToProve, name: str, wanted: bytes) -> bool:
    """The same bytes; or the same except for the paths of the policies."""
    found = given.files[name]
    if found == wanted:
        return True
    if name == _SOURCE:
        return bare_text(found.decode("utf-8", "replace")) == bare_text(wanted.decode())
    if name not in _WITH_PLACES:
        return False
    try:
        return _text(_without_files(_value(found))) == _text(_without_files(json.loads(wanted)))
    except (ValueError, RecursionError):
        return False


def _value(data: bytes) -> Any:
    """A file as JSON. ValueError if it is not JSON, or repeats a key."""
    return json.loads(data.decode("utf-8"), object_pairs_hook=_members)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a member is given twice")
    return found


def _text(value: Any) -> str:
    """A text by which values are compared: in Python, 4 equals 4.0, and 0 equals false."""
    return json.dumps(value, sort_keys=True)


def _without_files(value: Any) -> Any:
    """A value without the paths in its places: objects with a file and a line."""
    if isinstance(value, dict):
        is_place = "line" in value
        return {
            name: _without_files(each)
            for name, each in value.items()
            if not (is_place and name == "file")
        }
    return [_without_files(each) for each in value] if isinstance(value, list) else value


def _wrong_members(given: ToProve) -> Iterator[str]:
    """The members of the manifest that affect the load and differ from the required ones."""
    wanted = json.loads(manifest_file({}, given.emitted, given.provenance, {}))
    for name in sorted((wanted.keys() | given.manifest.keys()) - set(_FROM)):
        if _text(given.manifest.get(name)) != _text(wanted.get(name)):
            yield f"{MANIFEST}: $.{name} differs from what the policies give"


def _node_objects(given: ToProve, cache: BuildCache | None) -> ProvedPart:
    """They are the same for every policy: those that this release makes, or prebuilt ones."""
    what = "hooks, socket hooks and XDP equal those of this release, byte by byte"
    known: dict[str, list[bytes]] = {name: [] for name in NODE_OBJECTS}
    missing = ""
    for backend in Backend:
        try:
            for name, data in Target(backend).node_objects(cache).items():
                known[name].append(data)
        except HostError as failure:
            missing = f" ({failure})"
    faults = [
        f"{name} differs from this release's object{missing}"
        for name in NODE_OBJECTS
        if given.files.get(name) not in known[name]
    ]
    if not faults:
        return ProvedPart(HOOKS, what, ProofStatus.PROVED, len(NODE_OBJECTS))
    status = ProofStatus.UNDECIDED if missing else ProofStatus.REFUTED
    return ProvedPart(HOOKS, what, status, 0, tuple(faults))


def signed(given: ToProve, result: ProveResult, key: "Ed25519PrivateKey") -> str:
    """The envelope of a proof: the bundle, by the digest of its manifest, and what was proved of it.

    It has no time: the time of the signature does not affect the statement.
    """
    if result.status is not ProofStatus.PROVED:
        raise ValueError("only a complete proof can be signed")
    said = {
        "schema": SCHEMA,
        "result": PROVED,
        "manifest": given.bundle.digest,
        "node": given.bundle.node,
        "universe": result.universe.kind,
        "proved": [
            {"lemma": part.lemma, "what": part.what, "claims": part.claims} for part in result.parts
        ],
        "policyc": release_of("policyc"),
        "solvers": [{"name": name, "version": version} for name, version in result.solvers],
        "assumptions": list(result.assumptions),
    }
    return seal(PAYLOAD_TYPE, json.dumps(said, sort_keys=True).encode(), key)


def exit_code_of(result: ProveResult) -> int:
    """0 if all is proved, 1 if a part is refuted, 3 if no solver could decide."""
    return {ProofStatus.PROVED: 0, ProofStatus.REFUTED: 1, ProofStatus.UNDECIDED: 3}[result.status]
