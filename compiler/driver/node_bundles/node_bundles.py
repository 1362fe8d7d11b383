# SPDX-License-Identifier: Apache-2.0
"""`compile --all-nodes`: a bundle for each node, and every distinct file once.

The cluster is read, decided and proved once. A node's part of the Decision IR is some of its rows, which
a finite check confirms (`verifier/decision/restriction.py`). It is emitted like any other Decision IR,
node by node, in one process or in many. The output is written atomically, as docs/bundle-format.md
describes.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from policyc.backends.ebpf_c.seeds import Data
from policyc.compiler.driver.cache.build_cache import (
    BuildCache,
    open_cache,
)
from policyc.compiler.driver.compile.bundle import (
    MANIFEST,
    PROOF_FILE,
    Provenance,
    Text,
    digest,
    encoded,
    manifest_file,
    open_to_all,
    placed,
    policy_object,
    seed_files,
)
from policyc.compiler.driver.compile.compile import (
    Prepared,
    Progress,
    prepare,
    provenance,
)
from policyc.compiler.driver.compile.emission import emit_all
from policyc.compiler.driver.compile.inputs import Inputs
from policyc.compiler.driver.compile.json_lines import (
    item_texts,
    joined_members,
    json_text,
    list_text,
    member_text,
)
from policyc.compiler.driver.compile.node_subjects import all_nodes
from policyc.compiler.driver.compile.node_tables import (
    classifier_json,
    rules_json,
)
from policyc.compiler.driver.compile.objects import (
    DATAPATH,
    datapath_files,
)
from policyc.compiler.driver.compile.policy_texts import POLICIES_FILE
from policyc.compiler.driver.compile.target import (
    DEFAULT_TARGET,
    Target,
)
from policyc.compiler.driver.node_bundles.node_store import (
    NodeBundle,
    NodeStore,
    check_node_bundles,
)
from policyc.compiler.driver.node_bundles.shards import map_shards
from policyc.ir.decision import DecisionIR
from policyc.ir.errors import HostError, InternalError
from policyc.ir.restrict import endpoints_by_node, restrict, rows_of
from policyc.ir.universe import Endpoint, Universe
from policyc.verifier.decision.restriction import restriction_faults
from policyc.verifier.smt.solver_choice import Choice

SHARD = 16
"""The number of nodes in one task: equal files among them are transferred once."""


@dataclass(frozen=True)
class NodesCompiled:
    """The result of a run for all nodes."""

    ready: Prepared
    bundles: tuple[NodeBundle, ...]
    objects: int


@dataclass
class NodeWork:
    """The common data of all nodes. `shared` are the digests of files that are the same for all."""

    universe: Universe
    decision: DecisionIR
    provenance: Provenance
    shared: Mapping[str, str]
    target: Target
    release: Mapping[str, str]
    cache: BuildCache | None
    proving: Choice | None = None

    @cached_property
    def pods(self) -> dict[str, list[Endpoint]]:
        """The pods of each node."""
        return endpoints_by_node(self.universe)

    @cached_property
    def classifier_members(self) -> dict[str, str]:
        """The members of classifier.json as text, without the rows."""
        value = classifier_json(self.decision)
        return {name: member_text(value[name]) for name in value if name != "rows"}

    @cached_property
    def classifier_rows(self) -> list[str]:
        """The text of each row of the whole."""
        return item_texts(classifier_json(self.decision)["rows"])

    def __getstate__(self) -> dict[str, Any]:
        """Pickled without the caches that each process makes itself."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class NodesDone:
    """Some nodes' bundles, and the content of every distinct file in them, by digest."""

    bundles: tuple[NodeBundle, ...]
    contents: Mapping[str, Data]


def compile_all_nodes(
    inputs: Inputs,
    out: Path,
    progress: Progress,
    cache: BuildCache | None = None,
    jobs: int = 1,
    executor: str = "",
    target: Target = DEFAULT_TARGET,
    proving: Choice | None = None,
) -> NodesCompiled:
    """Write a bundle for each node of the cluster to `out`, which must be new or such a directory.

    `proving`: the bytecode of each bundle is proved, by these solvers.
    """
    check_node_bundles(out)
    ready = prepare(inputs, progress, cache, target=target)
    cluster = ready.read.cluster
    if cluster is None:
        raise InternalError("--all-nodes without a cluster")
    nodes = all_nodes(cluster.universe)
    progress("emitting")
    with placed(out) as work_folder, _shared_cache(cache, jobs, executor) as kept:
        store = NodeStore(work_folder, out)
        said = provenance(ready, is_bytecode_proved=proving is not None)
        common = _common_files(ready, said.policies, cache, target)
        shared = {name: store.add(data) for name, data in common.items()}
        its_provenance = replace(said, policies="")
        work = NodeWork(
            cluster.universe,
            ready.decided.decision,
            its_provenance,
            shared,
            target,
            target.release(cache),
            kept,
            proving,
        )
        shards = [nodes[at : at + SHARD] for at in range(0, len(nodes), SHARD)]
        bundles: list[NodeBundle] = []
        for done in map_shards(bundles_of_nodes, work, shards, jobs, executor):
            for data in done.contents.values():
                store.add(data)
            for bundle in done.bundles:
                store.link(bundle)
            bundles += done.bundles
        store.finish(bundles)
        open_to_all(work_folder)
    if cache is not None:
        cache.trim()
        ready = replace(ready, findings=(*ready.findings, *cache.findings))
    return NodesCompiled(ready, tuple(bundles), store.n_objects)


@contextmanager
def _shared_cache(
    cache: BuildCache | None, jobs: int, executor: str
) -> Iterator[BuildCache | None]:
    """A cache for all processes: equal objects are compiled once, also without --cache.

    A worker on another machine has no such directory, and a single process caches in memory.
    """
    if executor:
        yield None
    elif cache is not None or jobs == 1:
        yield cache
    else:
        with tempfile.TemporaryDirectory(prefix="policyc-cache-") as folder:
            yield open_cache(Path(folder))


def _common_files(
    ready: Prepared, policies: Text, cache: BuildCache | None, target: Target
) -> dict[str, bytes]:
    """The files that every node's bundle has."""
    files = {f"{DATAPATH}/{name}": data for name, data in datapath_files().items()}
    files |= target.node_objects(cache)
    files["rules.json"] = json_text(rules_json(ready.decided.decision)).encode()
    files[POLICIES_FILE] = encoded(policies)
    files |= {name: encoded(text) for name, text in ready.texts.items()}
    return files


def bundles_of_nodes(work: NodeWork, nodes: tuple[str, ...]) -> NodesDone:
    """The bundles of some nodes; runs in whichever process does the work."""
    theirs = work.target.release(None)
    if theirs != work.release:
        raise HostError(
            f"a worker has {_named(theirs)}, but this machine has {_named(work.release)}",
            "the same bundle comes from the same compiler: install one release on all workers",
        )
    contents: dict[str, Data] = {}
    bundles: list[NodeBundle] = []
    for node in nodes:
        files, bundle = _node_files(work, node)
        contents |= {digest(data): data for data in files.values()}
        bundles.append(bundle)
    return NodesDone(tuple(bundles), contents)


def _named(release: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in release.items())


def _node_files(work: NodeWork, node: str) -> tuple[dict[str, Data], NodeBundle]:
    """The files of one node's bundle that are not common to all."""
    pods = [pod for at in ("", node) for pod in work.pods.get(at, ())]
    subjects = frozenset(pod.qualified_name for pod in pods)
    rows = rows_of(work.decision.atoms, pods)
    part = restrict(work.decision, rows, subjects)
    for broken in restriction_faults(work.decision, part, subjects):
        raise InternalError(
            f"the bundle of node {node} differs from that of the whole cluster: {broken.what}"
        )
    emitted = emit_all(part, target=work.target)
    row_texts = list_text(work.classifier_rows[row] for row in rows)
    classifier = joined_members({**work.classifier_members, "rows": row_texts})
    files: dict[str, Data] = {
        "policy.bpf.c": emitted.c.encode(),
        "policy.bpf.o": policy_object(emitted, work.cache),
        "plan.json": json_text(emitted.plan.to_json()).encode(),
        "classifier.json": classifier.encode(),
        **seed_files(emitted),
    }
    if work.proving is not None:
        from policyc.compiler.driver.compile.proof_file import BundleProver

        universe = str(work.provenance.proof["universe"])
        prover = BundleProver(part, universe, work.proving, work.cache)
        files[PROOF_FILE] = prover(
            emitted, {**files, **work.target.node_objects(work.cache)}
        ).encode()
    digests = {**work.shared, **{name: digest(data) for name, data in files.items()}}
    its_provenance = replace(work.provenance, node=node)
    files[MANIFEST] = manifest_file(digests, emitted, its_provenance, work.release)
    digests[MANIFEST] = digest(files[MANIFEST])
    return files, NodeBundle(node, digests, len(subjects), len(part.atoms.rows))
