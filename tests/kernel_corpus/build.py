# SPDX-License-Identifier: Apache-2.0
"""Compile cases to bundles, once on the host: FOLDER/NAME/bundle, with build.json and frames.json.

By the compiler's own stages, from YAML's objects to the objects of clang, but for the proof. A bundle is
made again only where the case, clang or any file of the compiler changed. What the compiler refuses
for its size stays in the corpus, and build.json says why.
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
from policyc.compiler.driver.bundle import Provenance, write_bundle
from policyc.compiler.driver.compile import Inputs, decide_read, read_inputs
from policyc.compiler.driver.enforceable import enforceable
from policyc.compiler.driver.pipeline import Decided, emit_all
from policyc.compiler.frontend.lowered import Unsupported
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.sources import ObjectsSource
from policyc.ir.errors import HostError
from tests.kernel_corpus import flows
from tests.kernel_corpus.case import CorpusCase
from tests.kernel_corpus.corpus import ASKED

SOURCES = ("grammar", "ir", "compiler", "backends", "runtime/datapath")


def build(cases: Sequence[CorpusCase], folder: Path) -> None:
    """Make what is not there yet, on every core, the largest first."""
    folder.mkdir(parents=True, exist_ok=True)
    by_size = sorted(cases, key=lambda case: len(json.dumps(case.policies)), reverse=True)
    todo = [case for case in by_size if not _is_there(case, folder)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        list(pool.map(_build_one, todo, [folder] * len(todo)))


def _is_there(case: CorpusCase, folder: Path) -> bool:
    try:
        return bool(json.loads((folder / case.name / "build.json").read_text())["of"] == _of(case))
    except (OSError, ValueError, KeyError):
        return False


def _of(case: CorpusCase) -> str:
    """What the bundle depends on, as a digest."""
    text = json.dumps([case.policies, case.cluster], sort_keys=True)
    if case.name in ASKED:
        text += Path(flows.__file__).read_text()
    return hashlib.sha256(f"{_compiler()}\n{text}".encode()).hexdigest()


@cache
def _compiler() -> str:
    root = Path(policyc.ir.__file__).parents[1]
    files = sorted(p for name in SOURCES for p in (root / name).rglob("*") if p.suffix in _SUFFIXES)
    whole = hashlib.sha256(clang_version().encode())
    for file in (*files, Path(__file__)):
        whole.update(file.name.encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()


_SUFFIXES = (".py", ".c", ".h", ".json")


def _build_one(case: CorpusCase, folder: Path) -> None:
    target = folder / case.name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    decided = decided_case(case)
    record: dict[str, Any] = {"of": _of(case), "what": case.what, "refused": ""}
    try:
        emitted = emit_all(decided.decision)
    except HostError as refusal:
        record["refused"] = str(refusal)
    else:
        write_bundle(target / "bundle", decided, emitted, Provenance((), {}, {}))
        if case.name in ASKED:
            flows.write_frames(target, decided)
    (target / "build.json").write_text(json.dumps(record))


def decided_case(case: CorpusCase) -> Decided:
    """The decisions on a case; a case that is no valid input raises InputError with the findings."""
    policies = ObjectsSource(f"{case.name} policies", case.policies)
    cluster = (ObjectsSource(f"{case.name} cluster", case.cluster),) if case.cluster else ()
    read = read_inputs(Inputs((policies,), cluster, ReadOptions()))
    enforced, _ = enforceable(read.policies.policies, {}, Unsupported.ERROR)
    return decide_read(read, enforced)
