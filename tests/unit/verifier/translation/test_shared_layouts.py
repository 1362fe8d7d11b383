# SPDX-License-Identifier: Apache-2.0
"""Layouts that the policy program shares with the hooks are equal, or the difference is reported."""

from collections.abc import Iterator
from functools import cache

import pytest

from policyc.compiler.driver.compile import objects
from policyc.compiler.driver.compile.proof_file import as_loaded
from policyc.compiler.driver.compile.target import (
    HOOKS,
    SOCKETS,
    Backend,
    Target,
)
from policyc.verifier.bytecode.object import BpfObject, read_object
from policyc.verifier.translation.shared_layouts import layout_faults, map_faults
from tests.slices import one_in
from tests.unit.verifier.translation.generations import made

pytestmark = pytest.mark.thorough

CASE = "cidr4"


@cache
def hooks() -> BpfObject:
    return read_object(Target(Backend.C).node_objects(None)[HOOKS])


def faults(program: BpfObject, name: str = CASE) -> Iterator[str]:
    own = map(as_loaded, made(name).emitted.seeds)
    yield from layout_faults(program, hooks())
    yield from map_faults(program, hooks(), own)


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        pytest.param(name, backend, marks=pytest.mark.slow if (at + of) % 2 or at % 4 > 1 else ())
        for at, name in enumerate([CASE, "counters-none", "too-many-pairs", "extended-actions"])
        for of, backend in enumerate(Backend)
    ],
)
def test_compiled_layouts_agree(name: str, backend: Backend) -> None:
    assert list(faults(read_object(made(name, backend).object), name)) == []


def test_programs_at_sockets_share_maps_with_the_node_s_objects() -> None:
    case = made("socket-programs-1", Backend.LLVM)
    program, own = read_object(case.object), [*map(as_loaded, case.emitted.seeds)]
    node = Target(Backend.C).node_objects(None)
    others = [read_object(node[SOCKETS])]
    assert list(map_faults(program, hooks(), own, others)) == []
    alone = list(map_faults(program, hooks(), own))
    assert "the map pc_socket_pods belongs to no object" in alone


WRONG = {
    "members change places": (
        "flow.h",
        "__be16 sport, dport;",
        "__be16 dport, sport;",
        "struct pc_tuple is not that of the hooks",
    ),
    "another reason": (
        "drops.h",
        "PC_PASS = 0,",
        "PC_PASS = 40,",
        "enum drop_reason is not that of the hooks",
    ),
    "a flow of its own": (
        "flow.h",
        "} pc_scratch SEC",
        "} pc_scratch_too SEC(\".maps\");\n\nstruct {\n"
        "\t__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);\n\t__uint(max_entries, 1);\n"
        "\t__type(key, __u32);\n\t__type(value, struct pc_flow);\n} pc_scratch SEC",
        "the map pc_scratch is not that of the hooks",
    ),
    "a larger table": (
        "policy_run.h",
        "__uint(max_entries, PC_RULES);",
        "__uint(max_entries, PC_RULES + 1);",
        "the map pc_counts is not as the manifest has it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", one_in(2, WRONG))
def test_a_differing_layout_is_named(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, right, wrong, said = WRONG[fault]
    headers = objects.datapath_files()
    text = headers[name].decode()
    assert text.count(right) == 1, f"{name} does not say `{right}` once"
    changed = {**headers, name: text.replace(right, wrong).encode()}
    hooks()  # those of the release, before the headers are others
    monkeypatch.setattr(objects, "datapath_files", lambda: changed)
    source = f"/* {fault} */\n{made(CASE).emitted.c}"
    program = read_object(objects._compiled("policy.bpf.c", source)[0])
    assert said in list(faults(program))
