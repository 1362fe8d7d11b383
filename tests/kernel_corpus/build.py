# SPDX-License-Identifier: Apache-2.0
"""Compile cases to bundles, once on the host: FOLDER/NAME/bundle-c and bundle-llvm, one a backend.

Beside them build.json and, for some, frames.json. By the compiler's own stages, from YAML's objects to
BPF objects, but for the proof. A bundle is made again only where the case, clang, LLVM or any file of
the compiler changed. What the compiler refuses for its size stays in the corpus; build.json says why.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import policyc.ir
from policyc.backends.ebpf_c.clang import clang_version
from policyc.backends.ebpf_c.frames import Budgets
from policyc.compiler.driver.compile.bundle import (
    Provenance,
    node_texts,
    write_bundle,
)
from policyc.compiler.driver.compile.compile import (
    Inputs,
    decide_read,
    read_inputs,
)
from policyc.compiler.driver.compile.emission import emit_all
from policyc.compiler.driver.compile.enforced import enforced
from policyc.compiler.driver.compile.host_subjects import (
    hosts_of,
)
from policyc.compiler.driver.compile.pipeline import Decided
from policyc.compiler.driver.compile.target import (
    Backend,
    Target,
    llvm_release,
)
from policyc.compiler.frontend.lowered import Unsupported
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.yaml.sources import ObjectsSource
from policyc.ir.diagnostics import Report
from policyc.ir.errors import HostError
from policyc.ir.plan import Counters
from tests.kernel_corpus import flows
from tests.kernel_corpus.case import BUNDLES, CorpusCase
from tests.kernel_corpus.corpus import ASKED

BACKENDS = {"": Backend.C, " (llvm)": Backend.LLVM}
SOURCES = ("grammar", "ir", "compiler", "backends", "runtime/datapath")


def build(cases: Sequence[CorpusCase], folder: Path) -> None:
    """Build missing bundles on every core, the largest first."""
    folder.mkdir(parents=True, exist_ok=True)
    by_size = sorted(cases, key=lambda case: len(json.dumps(case.policies)), reverse=True)
    todo = [case for case in by_size if not _is_there(case, folder)]
    if len(todo) == 1:  # a process more would only load the compiler once more
        _build_one(todo[0], folder)
        return
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        list(pool.map(_build_one, todo, [folder] * len(todo)))


def _is_there(case: CorpusCase, folder: Path) -> bool:
    try:
        return bool(json.loads((folder / case.name / "build.json").read_text())["of"] == _of(case))
    except (OSError, ValueError, KeyError):
        return False


def _of(case: CorpusCase) -> str:
    """A digest of everything that the bundle depends on."""
    asked = case.diagrams and case.diagrams.value
    text = json.dumps(
        [case.policies, case.cluster, case.counters, case.node, case.at_sockets, asked],
        sort_keys=True,
    )
    if case.name in ASKED:
        text += Path(flows.__file__).read_text()
    return hashlib.sha256(f"{_compiler()}\n{text}".encode()).hexdigest()


@cache
def _compiler() -> str:
    root = Path(policyc.ir.__file__).parents[1]
    files = sorted(p for name in SOURCES for p in (root / name).rglob("*") if p.suffix in _SUFFIXES)
    whole = hashlib.sha256(f"{clang_version()} {llvm_release()}".encode())
    for file in (*files, Path(__file__)):
        whole.update(file.name.encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()


_SUFFIXES = (".py", ".c", ".h", ".json", ".bc", ".o")


def _build_one(case: CorpusCase, folder: Path) -> None:
    target = folder / case.name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    decided = decided_case(case)
    record: dict[str, Any] = {"of": _of(case), "what": case.what, "refused": ""}
    try:
        for suffix, backend in BACKENDS.items():
            made_for = Target(backend, Counters(case.counters), case.at_sockets)
            emitted = emit_all(decided.decision, Budgets(diagrams=case.diagrams), made_for)
            provenance = Provenance((), {}, {}, node=case.node)
            texts = node_texts(decided.decision)
            write_bundle(target / BUNDLES[suffix], texts, emitted, provenance)
    except HostError as refusal:
        record["refused"] = str(refusal)
    else:
        if case.name in ASKED:
            flows.write_frames(target, decided)
    (target / "build.json").write_text(json.dumps(record))


def decided_case(case: CorpusCase) -> Decided:
    """The decisions on a case; a case that is no valid input raises InputError with the findings."""
    policies = ObjectsSource(f"{case.name} policies", case.policies)
    cluster = (ObjectsSource(f"{case.name} cluster", case.cluster),) if case.cluster else ()
    read = read_inputs(Inputs((policies,), cluster, ReadOptions()))
    policies, _ = enforced(read.policies.policies, Unsupported.ERROR)
    lowering = hosts_of(read.policies.found.hosts, policies).lowering
    policies = lowering.run(policies, Report())
    if not case.node:
        return decide_read(read, policies)
    assert read.cluster is not None, "a bundle for a node needs its pods"
    pods = read.cluster.universe.endpoints
    return decide_read(
        read, policies, frozenset(pod.qualified_name for pod in pods if pod.node == case.node)
    )
