# SPDX-License-Identifier: Apache-2.0
"""A used bed equals a new one: every map, element by element."""

import random
import secrets
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from policyc.runtime.bundle.bundle import (
    HOOKS_OBJECT,
    POLICY_OBJECT,
)
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.per_cpu import possible_cpus
from policyc.runtime.load.resources.programs import POLICY_PROGRAM
from policyc.runtime.snat.snat import Masquerade
from tests.kernel.support import map_content
from tests.kernel.support.bed import (
    MOST,
    Bed,
    Beds,
    Lent,
    loads_open,
)
from tests.kernel.support.map_content import (
    HASH,
    LPM_TRIE,
    LRU_HASH,
    PERCPU_ARRAY,
    PROG_ARRAY,
    RDONLY_PROG,
    Content,
)
from tests.kernel.support.node_under_test import (
    NODE,
    UPLINK,
    WORLD,
    A,
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    frame,
    tcp,
)
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
    web,
)
from tests.kernel.support.table_policy import ANY
from tests.kernel_corpus.surroundings import own_bpffs

pytestmark = pytest.mark.kernel

Whole = dict[str, tuple[object, ...]]
"""Of each map what it is, and what is in it."""


def whole(maps: Iterator[tuple[str, int]]) -> Whole:
    found: Whole = {}
    for name, fd in maps:
        info = bpf_syscall.map_info(fd)
        sizes = info.key_size, info.value_size, info.max_entries, info.flags
        found[name] = (info.name, info.kind, *sizes, map_content.content(fd))
    return found


@contextmanager
def new_bed(objects: Path, at: Path) -> Iterator[tuple[Bed, Callable[[], None]]]:
    """An unused bed in its own root, and the object that lends both programs once more."""
    with own_bpffs(at) as root, closing(Beds(objects)) as beds:

        def lend() -> None:
            shutil.rmtree(root, ignore_errors=True)
            (root / "maps").mkdir(parents=True)
            for name in (HOOKS_OBJECT, POLICY_OBJECT):
                beds.open(objects / name, root / "maps").load()

        lend()
        yield beds.made[0], lend
        assert len(beds.made) == 1


def soil(fd: int, program: int, dice: random.Random) -> None:
    """Write elements at both ends of an array, and some of whatever else."""
    info = bpf_syscall.map_info(fd)
    value_size = info.value_size
    if info.kind == PERCPU_ARRAY:
        value_size = (value_size + 7) // 8 * 8 * possible_cpus()
    for at in sorted({0, info.max_entries // 2, info.max_entries - 1}):
        key = struct.pack("=I", at)
        if info.kind in (HASH, LRU_HASH):
            key = dice.randbytes(info.key_size)
        elif info.kind == LPM_TRIE:  # the length of the prefix comes first
            key = struct.pack("=I", 8 * (info.key_size - 4)) + dice.randbytes(info.key_size - 4)
        value = dice.randbytes(value_size)
        if info.kind == PROG_ARRAY:
            value = struct.pack("=I", program)
        bpf_syscall.map_update(fd, key, value)


def is_written(fd: int) -> bool:
    return not bpf_syscall.map_info(fd).flags & RDONLY_PROG


@pytest.mark.slow
def test_a_reused_bed_equals_a_new_one(objects: Path, tmp_path: Path) -> None:
    with (
        new_bed(objects, tmp_path / "new") as (new, _),
        new_bed(objects, tmp_path / "used") as (used, lend_again),
    ):
        expected = whole(new.maps())
        assert whole(used.maps()) == expected
        program = used.policies[0].program_fd(POLICY_PROGRAM)
        dice = random.Random(1)
        for fd in (fd for _, fd in used.maps() if is_written(fd)):
            soil(fd, program, dice)
        soiled = whole(used.maps())
        untouched = {name for name in expected if soiled[name] == expected[name]}
        assert untouched == {"hooks.rodata"}
        lend_again()
        assert whole(used.maps()) == expected


def contents(node: NodeUnderTest) -> dict[str, Content]:
    """Of the maps that are pinned; of the policy's place only that it is taken, and of a
    random MAC only that there is one.
    """
    found = {}
    pins = (*node.pins.maps.iterdir(), *node.pins.generation(1).iterdir())
    for pin in (pin for pin in pins if pin.name != POLICY_PROGRAM):
        with bpf_syscall.obj_get(pin) as fd:
            found[pin.name] = map_content.content(fd)
    drawn = {key: value[6:] for key, value in found["pc_answer_mac"].items()}
    slots = {name: dict.fromkeys(found[name], b"") for name in ("pc_policy", "pc_tunnel_slot")}
    return found | slots | {"pc_answer_mac": drawn}


USED = {
    "pc_ct4", "pc_place4", "pc_place4_new", "pc_drops", "pc_scratch", "pc_state", "pc_snat",
    "pc_snat_entries", "pc_frontends", "pc_backends", "pc_choices", "pc_policy",
}  # fmt: skip
"""What `use` leaves otherwise than a first load does."""


def use(node: NodeUnderTest) -> None:
    """Services, SNAT, connections, fragments and drops."""
    policy = node.policy().allow("a", "c", ANY).allow("a", "world", ANY)
    masquerade = Masquerade(range(40000, 40100))
    node.load(policy, services=web(C), uplinks=[UPLINK], masquerade=masquerade)
    for port in range(4000, 4020):
        for flags in (SYN, ACK, ACK):
            assert node.leaves("a", frame(A, VIP, tcp(port, PORT, flags)))
            answer = frame(C, A, tcp(TARGET, port, flags | ACK), smac=NODE.mac)
            assert node.arrives("a", answer)
        assert node.goes_out(frame(A, WORLD, tcp(port, 80, SYN)))
    assert not node.sent_by("a", frame(A, B, tcp(1, 2, SYN)))
    node.load(policy)


@pytest.mark.slow
def test_a_node_on_a_reused_bed_equals_a_fresh_load(
    node: NodeUnderTest, beds: Beds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "randbits", lambda _bits: 1)  # where the search for pods begins
    use(node)
    lent = next(bed for bed in beds.made if bed.is_lent_to(node.pins.maps))
    soiled = {name: map_content.content(fd) for name, fd in lent.shared.items()}
    node.unload()
    node.load(node.policy())
    found = contents(node)
    node.unload()
    with loads_open(Object):
        node.load(node.policy())
    assert found == contents(node)
    assert {name for name, each in soiled.items() if each != found[name]} >= USED


def ids(pin_root: Path) -> set[int]:
    """Of all maps that are pinned there."""
    found = set()
    for pin in pin_root.iterdir():
        with bpf_syscall.obj_get(pin) as fd:
            found.add(bpf_syscall.map_info(fd).id)
    return found


@pytest.mark.native
@pytest.mark.slow
def test_a_bed_is_lent_to_one_root_at_a_time(objects: Path, tmp_path: Path) -> None:
    with own_bpffs(tmp_path / "pins") as root, closing(Beds(objects)) as beds:
        roots = [root / str(each) / "maps" for each in range(MOST + 1)]
        for each in roots:
            each.mkdir(parents=True)
            with beds.open(objects / HOOKS_OBJECT, each) as opened:
                opened.load()
                assert isinstance(opened, Lent) == (each in roots[:MOST])
            with beds.open(objects / POLICY_OBJECT, each) as opened:
                opened.load()
                assert isinstance(opened, Lent) == (each in roots[:MOST])
        assert len(set.union(*map(ids, roots))) == sum(len(ids(each)) for each in roots)
        first = ids(roots[0])
        shutil.rmtree(roots[0].parent)
        roots[0].mkdir(parents=True)
        beds.open(objects / HOOKS_OBJECT, roots[0]).load()
        assert ids(roots[0]) == first


def test_a_load_that_the_bed_cannot_serve_loads_the_programs(
    beds: Beds, node: NodeUnderTest, objects: Path, tmp_path: Path
) -> None:
    node.load(node.policy())
    another = tmp_path / HOOKS_OBJECT
    another.write_bytes((objects / another.name).read_bytes() + bytes(1))
    assert isinstance(beds.open(another, node.pins.maps), Object)
    (node.pins.maps / "pc_if").unlink()
    assert isinstance(beds.open(objects / another.name, node.pins.maps), Object)


def policy_program(node: NodeUnderTest) -> int:
    (folder,) = node.pins.generations().values()
    with bpf_syscall.obj_get(folder / POLICY_PROGRAM) as fd:
        return bpf_syscall.prog_info(fd).id


def test_a_first_packet_program_is_reused_after_its_generation_is_removed(
    node: NodeUnderTest,
) -> None:
    seen = []
    for _ in range(4):
        node.load(node.policy())
        seen.append(policy_program(node))
    assert len(set(seen)) == 2
    assert all(one != following for one, following in pairwise(seen))


@pytest.mark.slow  # two first loads
@pytest.mark.native
@pytest.mark.fresh
def test_a_test_about_loading_uses_no_bed(node: NodeUnderTest) -> None:
    seen = set()
    for _ in range(2):
        node.load(node.policy())
        with bpf_syscall.obj_get(node.pins.hook("pc_to_pod")) as fd:
            seen.add(bpf_syscall.prog_info(fd).id)
        node.unload()
    assert len(seen) == 2
