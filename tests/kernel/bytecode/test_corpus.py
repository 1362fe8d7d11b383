# SPDX-License-Identifier: Apache-2.0
"""The running kernel loads the corpus of bundles within the bounds of docs/verifier-budget.md.

The quick test loads a slice. `make test-kernels` loads all of it on every supported kernel.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.kernel_corpus import budget
from tests.kernel_corpus.build import build
from tests.kernel_corpus.case import BUNDLES
from tests.kernel_corpus.corpus import ASKED, SLICE, all_cases, cases_named
from tests.kernel_corpus.load import load_all
from tests.kernel_corpus.page import PAGE, page

BUILT = budget.Built({"a": "one", "b": "another"}, {"a": "", "b": ""})
NUMBERS = {"programs": {"pc_policy_run": {"instructions": 1000, "verified": 2000}}, "map_bytes": 64}
RESULT: dict[str, Any] = {
    "kernel": "6.1.0-56-amd64",
    "bundles": {"a": copy.deepcopy(NUMBERS), "b": NUMBERS},
    "refused": {},
    "wrong": {},
}
TABLE = budget.make_table(BUILT, [RESULT])


def test_the_corpus_is_large_enough_and_its_names_are_unique() -> None:
    names = [case.name for case in all_cases()]
    assert len(names) == len(set(names)) >= 60
    assert set(SLICE) | set(ASKED) <= set(names)
    sizes = [sum(len(p["spec"].get("ingress", ())) for p in c.policies) for c in all_cases()]
    assert max(sizes) == 10000


def test_every_bundle_has_a_row_and_every_row_a_bundle() -> None:
    rows = [(name, row["what"]) for name, row in budget.read_table()["bundles"].items()]
    assert rows == [(c.name + end, c.what) for c in all_cases() for end in BUNDLES], budget.HOW


def test_the_page_shows_the_table() -> None:
    assert PAGE.read_text() == page(budget.read_table()), budget.HOW


def test_every_program_is_far_below_the_verifiers_limits() -> None:
    """A program a tenth larger than the largest must load, or the bounds would not warn in time."""
    for name, row in budget.read_table()["bundles"].items():
        for program in row["programs"]:
            limit = budget.bound(budget.most(row, program, "verified"))
            assert limit < budget.VERIFIER_LIMIT, (name, program)


def test_the_recorded_costs_are_within_the_bounds() -> None:
    assert budget.findings(TABLE, BUILT, [RESULT]) == []


def _grown(result: dict[str, Any], count: str, by: int) -> None:
    result["bundles"]["a"]["programs"]["pc_policy_run"][count] += by


BREAKAGES = {
    "instructions grow": (lambda r, t: _grown(r, "instructions", 165), "1165 instructions on"),
    "the verifier works longer": (lambda r, t: _grown(r, "verified", 265), "the bound is 2264"),
    "maps grow": (lambda r, t: r["bundles"]["a"].update(map_bytes=135), "bytes of maps"),
    "a program is new": (
        lambda r, t: r["bundles"]["a"]["programs"].update(pc_other={"instructions": 1}),
        "pc_other has no row",
    ),
    "a kernel refuses it": (
        lambda r, t: r["refused"].update(a=f"{r['bundles'].pop('a')}"),
        "6.1.0-56-amd64 refuses it",
    ),
    "it was not loaded": (lambda r, t: r["bundles"].pop("a"), "was not loaded"),
    "a verdict is wrong": (lambda r, t: r["wrong"].update(a=["x -> y"]), "1 wrong verdicts"),
    "it has no row": (lambda r, t: t["bundles"].pop("a"), "a: has no row"),
    "it compiles and the row says not": (
        lambda r, t: t["bundles"]["a"].update(refused="too large"),
        "compiles now",
    ),
}


@pytest.mark.parametrize(("breaking", "said"), BREAKAGES.values(), ids=BREAKAGES)
def test_the_comparison_reports(breaking: Any, said: str) -> None:
    result, table = copy.deepcopy(RESULT), copy.deepcopy(TABLE)
    assert budget.findings(table, BUILT, [result]) == []
    breaking(result, table)
    found = budget.findings(table, BUILT, [result])
    assert [said in text for text in found] == [True], found


def test_the_comparison_reports_a_bundle_that_the_compiler_refuses() -> None:
    refused = budget.Built(BUILT.what, {"a": "too large", "b": ""})
    without = RESULT | {"bundles": {"b": NUMBERS}}
    assert budget.findings(TABLE, refused, [without]) == [
        "a: the compiler refuses it now: too large"
    ]


def test_a_written_table_reads_back_equal(tmp_path: Path) -> None:
    budget.write_table(TABLE, tmp_path / "budget.json")
    assert json.loads((tmp_path / "budget.json").read_text()) == TABLE


@pytest.mark.kernel
def test_this_kernel_loads_a_slice_of_the_corpus(tmp_path: Path) -> None:
    for name in SLICE:
        build(cases_named((name,)), tmp_path)
    _check(SLICE, tmp_path)


@pytest.mark.kernel
@pytest.mark.slow
def test_this_kernel_loads_the_corpus(tmp_path: Path) -> None:
    _check((), tmp_path / "corpus")


def _check(names: tuple[str, ...], folder: Path) -> None:
    cases = cases_named(names)
    build(cases, folder)
    built = budget.read_built(folder, [case.name for case in cases])
    result = load_all(folder)
    assert budget.findings(budget.read_table(), built, [result]) == []
    assert set(result["bundles"]) == {name for name, why in built.refused.items() if not why}
    assert all(
        numbers["instructions"] > 0 and numbers["verified"] > 0 and numbers["jited_bytes"] > 0
        for bundle in result["bundles"].values()
        for numbers in bundle["programs"].values()
    )


@pytest.mark.kernel
@pytest.mark.slow
def test_a_wrong_verdict_is_found(tmp_path: Path) -> None:
    """The test inverts every expectation. Each one must be a finding."""
    build(cases_named(("calico-icmp",)), tmp_path)
    frames = tmp_path / "calico-icmp" / "frames.json"
    record = json.loads(frames.read_text())
    for frame in record["frames"]:
        frame["passes"] = not frame["passes"]
    frames.write_text(json.dumps(record))
    result = load_all(tmp_path)
    assert [len(flows) for flows in result["wrong"].values()] == [len(record["frames"])] * 2


@pytest.mark.slow
@pytest.mark.kernel
def test_an_object_that_the_kernel_refuses_is_found(tmp_path: Path) -> None:
    build(cases_named(("no-policies-unknown",)), tmp_path)
    manifest = tmp_path / "no-policies-unknown" / BUNDLES[" (llvm)"] / "manifest.json"
    (manifest.parent / "policy.bpf.o").write_bytes(b"\x7fELF not at all")
    result = load_all(tmp_path)
    assert list(result["refused"]) == ["no-policies-unknown (llvm)"]
