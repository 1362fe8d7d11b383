# SPDX-License-Identifier: Apache-2.0
"""The lookup from address to pod: the hooks and the Python twin find the written content."""

import ctypes
import ipaddress
import mmap
import random
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from policyc.runtime.endpoints import (
    endpoint_maps,
    endpoint_tables,
)
from policyc.runtime.endpoints.double_buffer import DoubleBuffer
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.btf import (
    Btf,
    StructLayout,
)
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.state import LoadedEndpoint
from policyc.runtime.undo import Undo
from tests.kernel.support.objects import (
    HERE,
    compile_c,
)
from tests.kernel_corpus.surroundings import own_bpffs
from tests.property.length import examples
from tests.slices import one_in

pytestmark = pytest.mark.kernel

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Answer = tuple[int, int, int]
"""Id, ifindex, flags."""
NO_POD = (0, 0, 0)
QUERIES = 131072
CHANGES = examples(30, 3)
WATCHED = 20_000


@dataclass
class Tables:
    """The maps of the hooks with a program that asks them, in a bpffs of their own."""

    pins: Pins
    layout: StructLayout
    programs: Object

    def write(self, endpoints: Iterable[LoadedEndpoint]) -> None:
        with Undo() as undo:
            endpoint_maps.write(self.pins, endpoints, self.layout, undo)
            undo.forget()

    def ask(self, addresses: list[Address]) -> list[Answer]:
        """The pod of each address, as the kernel's program finds it."""
        assert len(addresses) <= QUERIES
        queries = b"".join(
            each.packed.ljust(16, b"\0") + struct.pack("=II", each.version, 0) for each in addresses
        )
        with self.memory("p_queries", 24 * QUERIES) as memory:
            memory[: len(queries)] = queries
        with self.memory("p_progress", 16) as memory:
            memory[:16] = bytes(16)
        self.run("p_find", len(addresses))
        with self.memory("p_answers", 16 * QUERIES) as memory:
            answers = memory[: 16 * len(addresses)]
        return [(i, d, f) for i, d, _, f in struct.iter_unpack("=II6sH", answers)]

    def run(self, program: str, repeat: int) -> None:
        data = ctypes.create_string_buffer(64)
        attr = bytearray(80)
        fd = self.programs.program_fd(program)
        struct.pack_into("=IIIIQQII", attr, 0, fd, 0, 64, 0, ctypes.addressof(data), 0, repeat, 0)
        bpf_syscall.bpf(bpf_syscall.PROG_TEST_RUN, attr)

    def memory(self, name: str, size: int) -> mmap.mmap:
        return mmap.mmap(self.programs.map_fd(name), -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)

    def twin(self, address: Address) -> int:
        """The same by `endpoint_tables`; a record as its id."""
        find = endpoint_tables.who4 if address.version == 4 else endpoint_tables.who6
        with DoubleBuffer(self.pins.maps) as buffers:
            who = find(buffers.in_force(), int(address))
            if who & endpoint_tables.LOCAL:
                (ident,) = struct.unpack_from("=I", buffers.record(who & endpoint_tables.ID_MASK))
                return int(ident)
            return who & endpoint_tables.ID_MASK


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("pods") / "pods.bpf.o"
    compile_c(HERE / "pods.bpf.c", target)
    return target


@pytest.fixture
def tables(program: Path, tmp_path: Path) -> Iterator[Tables]:
    with own_bpffs(tmp_path / "bpffs") as bpffs:
        pins = Pins(bpffs)
        pins.make()
        with Object(program, pins.maps) as programs:
            programs.load()
            yield Tables(pins, Btf.of_object(program).struct("pc_endpoint"), programs)


def pod(ident: int, *addresses: str, ifindex: int = 0, is_node: bool = False) -> LoadedEndpoint:
    """One pod, of this node where it has a device."""
    mac = f"02:00:00:00:{ident >> 8 & 255:02x}:{ident & 255:02x}" if ifindex else ""
    device = f"veth{ident}" if ifindex else ""
    return LoadedEndpoint(
        ident, "shop", f"pod-{ident}", addresses, device, ifindex, mac, {}, is_node
    )


def numbered(addresses: Iterable[int], version: int) -> dict[Address, LoadedEndpoint]:
    """A pod for each address; every hundredth is of this node, every seventh of the others a node."""
    family = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    found: dict[Address, LoadedEndpoint] = {}
    for ident, number in enumerate(dict.fromkeys(addresses), 1):
        ifindex = 10 + ident if ident % 100 == 0 else 0
        address = family(number)
        is_node = not ifindex and ident % 7 == 0
        found[address] = pod(ident, str(address), ifindex=ifindex, is_node=is_node)
    return found


def answers_of(pods: Mapping[Address, LoadedEndpoint], asked: list[Address]) -> list[Answer]:
    return [
        (found.id, found.ifindex, int(found.is_node)) if (found := pods.get(each)) else NO_POD
        for each in asked
    ]


@cache
def of_one_first_line(count: int) -> list[int]:
    """Addresses whose first line is the same in a table of any size."""
    found: list[int] = []
    group = 1
    while len(found) < count:
        if endpoint_tables.first4(group << 3, 50) == 7:
            found.append(group << 3)
        group += 1
    return found


def sparse(bits: int, count: int) -> list[int]:
    rng = random.Random(count)
    return [rng.getrandbits(bits - 1) + 1 for _ in range(count)]


PODS = {
    "one": (4, [0x0A000001]),
    "a dense range": (4, range(0x0A010000, 0x0A010000 + 10000)),
    "65,536 dense": (4, range(0x0A010000, 0x0A020000)),
    "the first of every /24": (4, [n << 8 | 1 for n in range(0xA0000, 0xA0000 + 60000)]),
    "8,192 sparse": (4, sparse(32, 8192)),
    "65,536 sparse": (4, sparse(32, 65536)),
    "a part of every /24": (4, [n << 8 | at for n in range(0xA0000, 0xA0400) for at in range(2, 66)]),
    "all with one first line": (4, ()),
    "65,536 of a /64": (6, range(0xFD00 << 112, (0xFD00 << 112) + 65536)),
    "8,192 in as many /64": (6, [0xFD00 << 112 | n << 64 | 1 for n in range(8192)]),
    "65,536 in as many /64": (6, [0xFD00 << 112 | n << 64 | 1 for n in range(65536)]),
    "65,536 sparse, of IPv6": (6, sparse(128, 65536)),
}  # fmt: skip

QUICK = ("one", "8,192 sparse", "8,192 in as many /64")
"""Those of `make test`."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in PODS]
)
def test_the_kernel_finds_the_written_addresses_and_no_others(tables: Tables, name: str) -> None:
    version, numbers = PODS[name]
    numbers = numbers or of_one_first_line(600)
    pods = numbered(numbers, version)
    tables.write(pods.values())
    there = list(pods)
    assert tables.ask(there) == answers_of(pods, there)
    bits = 32 if version == 4 else 128
    rng = random.Random(1)
    family = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    near = [family(int(each) ^ 1 << rng.randrange(bits)) for each in there[:20000]]
    near += [family(rng.getrandbits(bits)) for _ in range(20000)]
    near += [family(0), family((1 << bits) - 1)]
    assert tables.ask(near) == answers_of(pods, near)
    for each in (*there[:200], *near[:200]):
        assert tables.twin(each) == answers_of(pods, [each])[0][0]


def test_both_families_of_a_pod_lead_to_its_one_record(tables: Tables) -> None:
    tables.write([pod(5, "10.0.0.5", "fd00::5", ifindex=9), pod(6, "10.0.0.6")])
    asked: list[Address] = [
        ipaddress.ip_address(each) for each in ("10.0.0.5", "fd00::5", "10.0.0.6", "fd00::6")
    ]
    assert tables.ask(asked) == [(5, 9, 0), (5, 9, 0), (6, 0, 0), NO_POD]
    with DoubleBuffer(tables.pins.maps) as buffers:
        assert buffers.record(1) == bytes(16)


def test_empty_tables_find_no_pod(tables: Tables) -> None:
    asked: list[Address] = [ipaddress.ip_address(each) for each in ("0.0.0.0", "10.0.0.1", "::")]
    assert tables.ask(asked) == [NO_POD] * 3
    assert endpoint_maps.present(tables.pins, tables.layout) == {}


def test_a_family_without_pods_finds_no_pod(tables: Tables) -> None:
    """The buffer still holds its earlier content, behind the cache lines in use."""
    pods = numbered(range(0xFD00 << 112, (0xFD00 << 112) + 5000), 6)
    stays = pod(9, "10.0.0.9")
    for _ in range(2):  # in each buffer
        tables.write([*pods.values(), stays])
        endpoint_maps.keep_only(tables.pins, [stays], tables.layout)
        assert tables.ask(list(pods)) == [NO_POD] * len(pods)
        assert set(endpoint_maps.present(tables.pins, tables.layout)) == {
            ("pc_ep4", ipaddress.ip_address("10.0.0.9").packed)
        }
        with DoubleBuffer(tables.pins.maps) as buffers:
            assert buffers.word.shift6 == 63


def test_random_changes_give_the_content_of_a_dictionary(tables: Tables) -> None:
    rng = random.Random(7)
    pool: list[Address] = [ipaddress.IPv4Address(each) for each in sparse(32, 600)]
    known: dict[Address, LoadedEndpoint] = {}
    for _ in range(25):
        added = {
            each: pod(rng.randrange(1, 60000), str(each), ifindex=rng.choice((0, 0, 3)))
            for each in rng.sample(pool, 60)
        }
        tables.write(added.values())
        known |= added
        assert tables.ask(pool) == answers_of(known, pool)
        known = {each: known[each] for each in rng.sample(list(known), len(known) * 2 // 3)}
        endpoint_maps.keep_only(tables.pins, known.values(), tables.layout)
        assert tables.ask(pool) == answers_of(known, pool)
        held = endpoint_maps.present(tables.pins, tables.layout)
        assert {key for name, key in held if name == "pc_ep4"} == {each.packed for each in known}


def test_an_undone_write_restores_the_previous_content(tables: Tables) -> None:
    tables.write([pod(1, "10.0.0.1", ifindex=4), pod(2, "fd00::2")])
    before = endpoint_maps.present(tables.pins, tables.layout)
    with pytest.raises(ZeroDivisionError), Undo() as undo:
        changed = [pod(9, "10.0.0.1", ifindex=5), pod(3, "fd00::3", ifindex=6)]
        endpoint_maps.write(tables.pins, changed, tables.layout, undo)
        assert tables.ask([ipaddress.ip_address("10.0.0.1")]) == [(9, 5, 0)]
        raise ZeroDivisionError
    assert endpoint_maps.present(tables.pins, tables.layout) == before
    assert tables.ask([ipaddress.ip_address("10.0.0.1")]) == [(1, 4, 0)]


def test_unchanged_content_is_not_written_again(tables: Tables) -> None:
    tables.write([pod(1, "10.0.0.1"), pod(2, "fd00::2", ifindex=3)])
    with DoubleBuffer(tables.pins.maps) as buffers:
        word = buffers.word
        tables.write([pod(1, "10.0.0.1")])
        assert buffers.word == word
        tables.write([pod(4, "10.0.0.4")])
        assert buffers.word.buffer == 1 - word.buffer


def _too_many_addresses() -> list[LoadedEndpoint]:
    return [pod(1 + n % 60000, str(ipaddress.IPv4Address(0x0A000000 + n))) for n in range(65537)]


def _too_many_local_pods() -> list[LoadedEndpoint]:
    addresses = (str(ipaddress.IPv4Address(0x0A000000 + n)) for n in range(4097))
    return [pod(n, each, ifindex=n) for n, each in enumerate(addresses, 1)]


@pytest.mark.parametrize(
    ("endpoints", "what"),
    [
        (_too_many_addresses, "65538 IPv4 addresses exceed the limit of 65536"),
        (_too_many_local_pods, "4097 pods of this node exceed the limit of 4096"),
        (lambda: [pod(0x3FFFF, "10.9.9.9")], "above 262142"),
    ],
    ids=["addresses", "pods of this node", "ids"],
)
def test_a_change_that_does_not_fit_is_refused_as_a_whole(
    tables: Tables, endpoints: object, what: str
) -> None:
    assert callable(endpoints)
    tables.write([pod(1, "10.255.0.1")])
    before = endpoint_maps.present(tables.pins, tables.layout)
    with pytest.raises(InputError, match=what) as caught:
        tables.write(endpoints())
    assert caught.value.exit_code == 2
    assert endpoint_maps.present(tables.pins, tables.layout) == before


def test_addresses_that_find_no_bucket_are_an_error_of_the_host(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.write([pod(1, "10.0.0.1")])
    monkeypatch.setattr(endpoint_tables, "MAX_MOVES", 0)
    monkeypatch.setattr(endpoint_tables, "_sizes", lambda *_: iter((2,)))
    with pytest.raises(HostError, match="cannot hold all addresses") as caught:
        tables.write([pod(n, str(ipaddress.IPv4Address(n << 8))) for n in range(1, 40)])
    assert caught.value.exit_code == 3
    assert tables.ask([ipaddress.ip_address("10.0.0.1")]) == [(1, 0, 0)]


def test_the_map_of_another_release_is_not_taken_for_ours(tables: Tables) -> None:
    tables.pins.map("pc_ep4").unlink()
    bpf_syscall.obj_pin(tables.programs.map_fd("pc_if"), tables.pins.map("pc_ep4"))
    with pytest.raises(HostError, match="pc_ep4 that is in use has another layout"):
        endpoint_maps.present(tables.pins, tables.layout)


@pytest.mark.parametrize("address", one_in(2, ["10.0.0.5", "fd00::5"]))
def test_no_reader_sees_a_partial_change(tables: Tables, address: str) -> None:
    stays = pod(7, address, ifindex=3)
    tables.write([stays])
    expected = endpoint_maps.present(tables.pins, tables.layout)
    [value] = {value for (name, _), value in expected.items() if name != "pc_if"}
    asked = ipaddress.ip_address(address)
    assert tables.ask([asked]) == [(7, 3, 0)]
    with tables.memory("p_answers", 16 * QUERIES) as memory:
        assert memory[:16] == value
    ends = threading.Event()

    def watch() -> None:
        while not ends.is_set():
            tables.run("p_watch", WATCHED)

    reader = threading.Thread(target=watch)
    reader.start()
    try:
        rng = random.Random(3)
        for _ in range(CHANGES):
            others = [
                pod(n, str(ipaddress.IPv4Address(rng.getrandbits(32) | 1)), f"fd00:{n:x}::9",
                    ifindex=rng.choice((0, n)))
                for n in rng.sample(range(100, 9000), rng.choice((3, 30, 300)))
            ]  # fmt: skip
            tables.write(others)
            endpoint_maps.keep_only(tables.pins, [stays], tables.layout)
    finally:
        ends.set()
        reader.join()
    with tables.memory("p_progress", 16) as memory:
        n_asked, wrong = struct.unpack("=QQ", memory[:16])
    assert n_asked > 100_000
    assert wrong == 0
