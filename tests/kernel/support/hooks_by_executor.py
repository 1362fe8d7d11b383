# SPDX-License-Identifier: Apache-2.0
"""The hooks of a loaded node run twice on a frame: by the kernel, and by the executor on its maps.

The executor's maps begin with what the kernel's hold, and must hold the same after each frame. The
time and the random numbers of a run are read from what the kernel has written.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.per_cpu import possible_cpus
from policyc.verifier.bytecode.btf import Btf, Kind, read_btf
from policyc.verifier.bytecode.concrete import Around, Ended, go_on, resume, run
from policyc.verifier.bytecode.core_layouts import KernelLayouts
from policyc.verifier.bytecode.definitions import MapDefinition, MapKind
from policyc.verifier.bytecode.errors import UnmodelledError
from policyc.verifier.bytecode.machine import TailCall
from policyc.verifier.bytecode.maps import Map, empty_map, has_model
from policyc.verifier.bytecode.memory import Bytes, Memory
from policyc.verifier.bytecode.object import BpfObject, read_object
from policyc.verifier.bytecode.oracle import Answer, Oracle
from policyc.verifier.bytecode.pointers import KernelObject, Pointer, Region, Value
from policyc.verifier.bytecode.program import Program, link_program
from policyc.verifier.bytecode.state import State
from policyc.verifier.bytecode.values import Bits
from tests.kernel.support import helpers_by_hand as by_hand
from tests.kernel.support.map_content import is_zero
from tests.kernel.support.node_under_test import (
    NodeUnderTest,
    run_through,
)
from tests.kernel.support.policy_by_executor import (
    TABLES,
    Contents,
)

POLICY = "pc_policy_run"
POD_HOOKS = ("pc_from_pod", "pc_to_pod")
ALL_HOOKS = (*POD_HOOKS, "pc_from_uplink", "pc_to_uplink", "pc_from_tunnel")
ARRAYS = (MapKind.ARRAY, MapKind.PERCPU_ARRAY)
SMALL = 2048
"""Elements of an array that is read after each frame."""
SK_BUFF, NET_DEVICE, NET = map(KernelObject, ("sk_buff", "net_device", "net"))


class KernelStruct(Bytes):
    """A struct of the kernel: zeros, but for one pointer."""

    def __init__(self, at: int = -1, to: Pointer | None = None) -> None:
        super().__init__(bytes(1 << 14), is_read_only=True)
        self._at, self._to = at, to

    def load(self, offset: Bits, size: int) -> Value:
        found = super().load(offset, size)
        return self._to if self._to and offset == self._at else found


def offset_of(kernel: Btf, ident: int, name: str) -> int | None:
    """In bytes, also in members without a name; None: it has no such member."""
    for each in kernel.members(ident):
        if each.name == name:
            return each.bit_offset // 8
        if not each.name:
            found = offset_of(kernel, each.type, name)
            if found is not None:
                return each.bit_offset // 8 + found
    return None


@cache
def packet_in_memory() -> Mapping[Region, Memory]:
    """No checksum is left to a device, and the namespace has no IPsec policies."""
    kernel = read_btf(Path("/sys/kernel/btf/vmlinux").read_bytes())

    def struct(name: str, member: str, to: KernelObject) -> KernelStruct:
        (ident,) = kernel.all_named(Kind.STRUCT, name)
        at = offset_of(kernel, ident, member)
        assert at is not None
        return KernelStruct(at, Pointer(to))

    return {
        SK_BUFF: struct("sk_buff", "dev", NET_DEVICE),
        NET_DEVICE: struct("net_device", "nd_net", NET),
        NET: KernelStruct(),
    }


class OfTheKernel(Oracle):
    """Time and chance as the kernel had them."""

    def __init__(self, ticks: int, drawn: int, ifindex: int) -> None:
        self._ticks, self._drawn, self._ifindex = ticks, drawn, ifindex

    def answer(self, state: State, name: str) -> Answer:
        match name:
            case "JIFFIES64":
                return Answer(self._ticks)
            case "GET_PRANDOM_U32":
                return Answer(self._drawn)
            case "SK_LOOKUP_TCP" | "SKC_LOOKUP_TCP":
                return Answer(0)  # nothing in the node's namespace has a socket
            case "bpf_cast_to_kern_ctx":
                return Answer(Pointer(SK_BUFF), memory=packet_in_memory())
            case "L3_CSUM_REPLACE" | "L4_CSUM_REPLACE":
                return by_hand.replace_checksum(state, is_l4=name.startswith("L4"))
            case "CSUM_DIFF":
                return by_hand.checksum_difference(state)
            case "CHECK_MTU":
                return by_hand.check_mtu(state, self._ifindex)
            case "REDIRECT":
                return by_hand.redirect(state)
            case "SKB_CHANGE_TYPE" | "SKB_SET_TUNNEL_KEY":
                return Answer(0)
            case "SKB_GET_TUNNEL_KEY":
                return by_hand.no_tunnel_key(state)
        raise UnmodelledError(name)


class Twin:
    """A node's hooks and its policy program, on one CPU."""

    def __init__(self, node: NodeUnderTest, cpu: int, used: Sequence[str] = POD_HOOKS) -> None:
        self._node, self._cpu, self._used = node, cpu, used
        kernel = read_btf(Path("/sys/kernel/btf/vmlinux").read_bytes())
        self.hooks = self._read("hooks.bpf.o")
        self.policy = self._read("policy.bpf.o")
        self._layouts = KernelLayouts(self.hooks.btf, kernel)
        self._programs: dict[str, Program] = {}

    def _read(self, name: str) -> BpfObject:
        return read_object((self._node.objects / name).read_bytes())

    def _program(self, name: str) -> Program:
        if name not in self._programs:
            source = self.policy if name == POLICY else self.hooks
            self._programs[name] = link_program(source, name, self._layouts)
        return self._programs[name]

    @cached_property
    def definitions(self) -> dict[str, MapDefinition]:
        """Of every map that a program uses and that has a name in the bpffs: data sections are the
        object's, and what hooks keep for themselves is about answers to whom a Service refuses.
        """
        found = {}
        for name in (*self._used, POLICY):
            program = self._program(name)
            for each in (program.maps[used] for used in program.used_maps):
                is_named = each.pinning or name == POLICY
                if has_model(each) and is_named and not each.initial:
                    found[each.name] = each
        return found

    def run(
        self, hook: str, frame: bytes, ifindex: int, came_in: int, mark: int = 0
    ) -> tuple[int, bytes]:
        """Run a frame through both; gives the verdict that both have, and what both make of it."""
        before = self.left_here()
        with bpf_syscall.obj_get(self._node.pins.hook(hook)) as fd:
            verdict, out = run_through(fd, frame, ifindex, came_in, mark)
        after = self.contents(self._small)
        oracle = OfTheKernel(self._ticks(after), self._drawn(before, after), ifindex)
        ended = self._ended(hook, frame, oracle, (ifindex, came_in, mark))
        assert ended.result == verdict & 0xFFFFFFFF, frame.hex()
        assert ended.packet == out, frame.hex()
        self._compare(after, frame)
        return verdict, out

    def compare_all(self) -> None:
        """The large arrays, too."""
        self._compare(self.contents(self.definitions.values()), b"")

    def _compare(self, there: Contents, frame: bytes) -> None:
        here = self.left_here()
        for name, entries in there.items():
            assert here[name] == entries, f"{name}, {frame.hex()}"

    @cached_property
    def _small(self) -> list[MapDefinition]:
        """All but arrays that take long to read."""
        found = self.definitions.values()
        return [each for each in found if each.kind not in ARRAYS or each.max_entries <= SMALL]

    @cached_property
    def _maps(self) -> dict[str, Map]:
        """The executor's; at first they hold what the kernel's do."""
        models = {name: empty_map(definition) for name, definition in self.definitions.items()}
        for name, entries in self.contents(self.definitions.values()).items():
            for key, value in entries.items():
                models[name].put(key, value)
        return models

    def left_here(self) -> Contents:
        """What the executor's maps hold."""
        return {name: contents_of(self._maps[name]) for name in self.definitions}

    def _ticks(self, contents: Contents) -> int:
        place = self.hooks.btf.place("pc_flow", "now")
        scratch = contents["pc_scratch"].get(bytes(4), bytes(256))
        return int.from_bytes(scratch[place.offset : place.offset + place.size], "little")

    def _drawn(self, before: Contents, after: Contents) -> int:
        """The number of the connection, or of the port of a node's address, that is new; 0 without one.

        Both entries of a connection to a Service have its number.
        """
        places = {name: self.hooks.btf.place("pc_ct", "flow_id") for name in TABLES[:4]}
        places |= {"pc_snat_entries": self.hooks.btf.place("pc_snat_entry", "id")}

        def numbers(contents: Contents) -> set[bytes]:
            return {
                value[place.offset : place.offset + place.size]
                for name, place in places.items()
                for value in contents.get(name, {}).values()
            }

        new = {number for number in numbers(after) - numbers(before) if any(number)}
        assert len(new) <= 1, "one run draws one number that stays"
        return int.from_bytes(new.pop(), "little") if new else 0

    def _ended(self, hook: str, frame: bytes, oracle: Oracle, met: tuple[int, int, int]) -> Ended:
        ifindex, came_in, mark = met
        fields = {
            "ifindex": ifindex,
            "ingress_ifindex": came_in,
            "protocol": int.from_bytes(frame[12:14], "little"),
            "mark": mark,
            "vlan_present": 0,
            "gso_size": 0,
        }
        around = Around(self._program(hook), self._maps, oracle)
        ended = run(around, frame, fields)
        while isinstance(left := ended.result, TailCall):
            with self._map(left.map) as fd:
                there = bpf_syscall.map_lookup(fd, struct.pack("<I", int(str(left.index))), 4)
            if left.map == "pc_policy":
                assert there is not None, "a policy program is there"
                around = Around(self._program(POLICY), self._maps, oracle)
                ended = go_on(around, ended)
            else:
                assert there is None, "no bypass, no pod of another namespace, no outer headers"
                ended = resume(around, ended.state)
        return ended

    # --- what maps hold ------------------------------------------------------------------------

    @contextmanager
    def _map(self, name: str) -> Iterator[int]:
        shared = self._node.pins.map(name)
        newest = max(self._node.pins.generations().items())[1]
        with bpf_syscall.obj_get(shared if shared.exists() else newest / name) as fd:
            yield fd

    def contents(self, wanted: Iterable[MapDefinition]) -> Contents:
        """Of arrays what is not zero, of those of each CPU that of this one."""
        found: Contents = {}
        for definition in wanted:
            with self._map(definition.name) as fd:
                found[definition.name] = self._contents(fd, definition)
        return found

    def _contents(self, fd: int, definition: MapDefinition) -> dict[bytes, bytes]:
        match definition.kind:
            case MapKind.ARRAY:
                return _elements(fd, definition)
            case MapKind.PERCPU_ARRAY:
                return self._own_elements(fd, definition)
        keys = list(bpf_syscall.map_keys(fd, definition.key_size))
        return {key: bpf_syscall.map_lookup(fd, key, definition.value_size) or b"" for key in keys}

    def _own_elements(self, fd: int, definition: MapDefinition) -> dict[bytes, bytes]:
        size = definition.value_size
        stride = (size + 7) // 8 * 8
        found = {}
        for at in range(definition.max_entries):
            key = struct.pack("<I", at)
            raw = bpf_syscall.map_lookup(fd, key, stride * possible_cpus()) or b""
            value = raw[self._cpu * stride :][:size]
            if not is_zero(value):
                found[key] = value
        return found


def contents_of(found: Map) -> dict[bytes, bytes]:
    """As of the kernel's maps."""
    is_array = found.definition.kind in ARRAYS
    return {key: value for key, value in found.items().items() if not (is_array and is_zero(value))}


def _elements(fd: int, definition: MapDefinition) -> dict[bytes, bytes]:
    size = definition.value_size
    info = bpf_syscall.map_info(fd)
    if definition.max_entries == 1:
        whole = bpf_syscall.map_lookup(fd, bytes(4), size) or b""
        return {bytes(4): whole} if not is_zero(whole) else {}
    found = {}
    for keys, values, count in bpf_syscall.map_items_batch(fd, info, 8192):
        if is_zero(values):
            continue
        for at in range(count):
            value = values[size * at : size * (at + 1)]
            if not is_zero(value):
                found[keys[4 * at : 4 * at + 4]] = value
    return found
