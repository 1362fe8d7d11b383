# SPDX-License-Identifier: Apache-2.0
"""bpf(2), for what libbpf 1.1 lacks or hides: batches, tcx links, test runs, pins, object infos.

File descriptors are plain numbers; the caller owns what it gets (`Fd` closes it). Failures are `OSError`
with the kernel's errno; the caller interprets it.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "s390x": 351, "ppc64le": 361}

MAP_CREATE = 0
MAP_LOOKUP_ELEM = 1
MAP_UPDATE_ELEM = 2
MAP_DELETE_ELEM = 3
MAP_GET_NEXT_KEY = 4
PROG_LOAD = 5
OBJ_PIN = 6
OBJ_GET = 7
PROG_ATTACH = 8
PROG_TEST_RUN = 10
PROG_GET_FD_BY_ID = 13
MAP_GET_FD_BY_ID = 14
OBJ_GET_INFO_BY_FD = 15
PROG_QUERY = 16
BTF_GET_FD_BY_ID = 19
MAP_LOOKUP_BATCH = 24
MAP_UPDATE_BATCH = 26
LINK_CREATE = 28
LINK_UPDATE = 29
ITER_CREATE = 33
LINK_DETACH = 34

ATTACH_TRACE_ITER = 28
ATTACH_TCX_INGRESS = 46
ATTACH_TCX_EGRESS = 47
_PREROUTING = 0  # NF_INET_PRE_ROUTING
_MPROG_MAX = 64  # BPF_MPROG_MAX: programs at a device
_BEFORE = 1 << 3  # BPF_F_BEFORE: without another program, before all
ATTACH_XDP = 37
ATTACH_NETKIT_PRIMARY = 54
ATTACH_NETKIT_PEER = 55
ATTACH_NETFILTER = 45
PROG_TYPE_NETFILTER = 32
PROG_TYPE_TRACING = 26
LINK_TYPE_TCX = 11

_LOAD_64, _MAP_FD, _MAP_VALUE = 0x18, 1, 2  # BPF_LD | BPF_DW | BPF_IMM; BPF_PSEUDO_MAP_*

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


def bpf(command: int, attr: "bytes | bytearray | ctypes.Array[ctypes.c_char]") -> int:
    """One call; if `attr` is mutable, it holds the attributes that the kernel wrote back."""
    number = _NUMBERS.get(platform.machine(), 321)
    if isinstance(attr, bytes):
        buffer = ctypes.create_string_buffer(attr, len(attr))
    elif isinstance(attr, bytearray):
        buffer = (ctypes.c_char * len(attr)).from_buffer(attr)
    else:
        buffer = attr
    result = int(_syscall(number, command, buffer, len(buffer)))
    if result < 0:
        errno = ctypes.get_errno()
        raise OSError(errno, os.strerror(errno))
    return result


class Fd:
    """An owned file descriptor."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> int:
        return self.number

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self.number)


def _address(buffer: object) -> int:
    return ctypes.addressof(buffer)  # type: ignore[arg-type]


# --- pins -------------------------------------------------------------------------------------


def obj_pin(fd: int, path: Path) -> None:
    """Give the object a name in a bpffs, by which it outlives this process."""
    name = ctypes.create_string_buffer(os.fsencode(path))
    bpf(OBJ_PIN, struct.pack("=QIIII", _address(name), fd, 0, 0, 0))


def obj_get(path: Path) -> Fd:
    """Open the object that is pinned at the path."""
    name = ctypes.create_string_buffer(os.fsencode(path))
    return Fd(bpf(OBJ_GET, struct.pack("=QIIII", _address(name), 0, 0, 0, 0)))


# --- maps -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MapInfo:
    """The kernel's information about a map."""

    kind: int
    id: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int  # BPF_F_* of <linux/bpf.h>
    name: str
    btf_id: int  # of the object that made it; 0: none
    key_type: int  # in that BTF
    value_type: int


def map_info(fd: int) -> MapInfo:
    """Ask the kernel about a map."""
    raw = _info(fd, 80)
    kind, ident, key_size, value_size, entries, flags, name = struct.unpack_from("=6I16s", raw)
    types = struct.unpack_from("=3I", raw, 64)
    return MapInfo(kind, ident, key_size, value_size, entries, flags, _name(name), *types)


def btf_data(ident: int) -> bytes:
    """The BTF with an id, as the kernel holds it."""
    with Fd(bpf(BTF_GET_FD_BY_ID, struct.pack("=III", ident, 0, 0))) as fd:
        info = ctypes.create_string_buffer(32)  # struct bpf_btf_info
        attr = struct.pack("=IIQ", fd, len(info), _address(info))
        bpf(OBJ_GET_INFO_BY_FD, attr)
        (size,) = struct.unpack_from("=I", info, 8)
        data = ctypes.create_string_buffer(size)
        struct.pack_into("=QI", info, 0, _address(data), size)
        bpf(OBJ_GET_INFO_BY_FD, attr)
        return data.raw


def map_by_id(ident: int) -> Fd:
    """Open a map by its id."""
    return Fd(bpf(MAP_GET_FD_BY_ID, struct.pack("=III", ident, 0, 0)))


def map_update(fd: int, key: bytes, value: bytes) -> None:
    """Set one element."""
    k = ctypes.create_string_buffer(key, len(key))
    v = ctypes.create_string_buffer(value, len(value))
    bpf(MAP_UPDATE_ELEM, struct.pack("=IIQQQ", fd, 0, _address(k), _address(v), 0))


def map_lookup(fd: int, key: bytes, value_size: int) -> bytes | None:
    """One element, or None. For a per-CPU map: the values of every possible CPU, eight-byte aligned."""
    k = ctypes.create_string_buffer(key, len(key))
    v = ctypes.create_string_buffer(value_size)
    try:
        bpf(MAP_LOOKUP_ELEM, struct.pack("=IIQQQ", fd, 0, _address(k), _address(v), 0))
    except FileNotFoundError:
        return None
    return v.raw


def map_delete(fd: int, key: bytes) -> bool:
    """Remove one element. False when it was not there."""
    k = ctypes.create_string_buffer(key, len(key))
    try:
        bpf(MAP_DELETE_ELEM, struct.pack("=IIQQQ", fd, 0, _address(k), 0, 0))
    except FileNotFoundError:
        return False
    return True


def map_update_batch(fd: int, keys: bytes, values: bytes, count: int) -> None:
    """Set many elements with one call (0.07 s for 100,000)."""
    if not count:
        return
    k = ctypes.create_string_buffer(keys, len(keys))
    v = ctypes.create_string_buffer(values, len(values))
    bpf(
        MAP_UPDATE_BATCH,
        struct.pack("=QQQQIIQQ", 0, 0, _address(k), _address(v), count, fd, 0, 0),
    )


def map_keys(fd: int, key_size: int) -> Iterator[bytes]:
    """Every key, one by one; for small maps."""
    key = ctypes.create_string_buffer(key_size)
    following = ctypes.create_string_buffer(key_size)
    at = 0
    while True:
        try:
            bpf(MAP_GET_NEXT_KEY, struct.pack("=IIQQ", fd, 0, at, _address(following)))
        except FileNotFoundError:
            return
        yield following.raw
        key.raw = following.raw
        at = _address(key)


def map_items_batch(
    fd: int, info: MapInfo, portion: int = 4096
) -> Iterator[tuple[bytes, bytes, int]]:
    """Keys, values and their count, in portions; for large hash maps.

    A bucket may hold more than the rest of a portion; the kernel then answers ENOSPC.
    """
    token = ctypes.create_string_buffer(max(info.key_size, 4))
    keys = ctypes.create_string_buffer(portion * info.key_size)
    values = ctypes.create_string_buffer(portion * info.value_size)
    at = 0
    while True:
        attr = bytearray(
            struct.pack(
                "=QQQQIIQQ",
                at,
                _address(token),
                _address(keys),
                _address(values),
                portion,
                fd,
                0,
                0,
            )
        )
        last = False
        try:
            bpf(MAP_LOOKUP_BATCH, attr)
        except FileNotFoundError:
            last = True
        count = struct.unpack_from("=I", attr, 32)[0]
        yield keys.raw[: count * info.key_size], values.raw[: count * info.value_size], count
        if last:
            return
        at = _address(token)


# --- programs and links -----------------------------------------------------------------------


def takes_program(kind: int, attach_type: int, function: int = 0) -> bool:
    """Whether the kernel takes a program of these types that does nothing.

    `function` is the BTF id of what a tracing program is attached to.
    """
    code = struct.pack("=BBhiBBhi", 0xB7, 0, 0, 1, 0x95, 0, 0, 0)  # r0 = 1; exit
    instructions = ctypes.create_string_buffer(code, len(code))
    license_name = ctypes.create_string_buffer(b"GPL")
    attr = struct.pack("=IIQQ", kind, 2, _address(instructions), _address(license_name))
    attr += struct.pack("=44xI28xI", attach_type, function)
    try:
        with Fd(bpf(PROG_LOAD, attr)):
            return True
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class ProgInfo:
    """The kernel's information about a program."""

    id: int
    tag: str
    name: str
    instructions: int  # after translation, in bytes
    jited: int  # machine code, in bytes; 0 without a JIT
    verified: int  # instructions that the verifier processed, with repetitions


def prog_info(fd: int) -> ProgInfo:
    """Ask the kernel about a program."""
    raw = _info(fd, 232)
    _kind, ident, tag, jited, translated = struct.unpack_from("=II8sII", raw)
    (verified,) = struct.unpack_from("=I", raw, 216)
    return ProgInfo(ident, tag.hex(), _name(raw[64:80]), translated, jited, verified)


def prog_map_ids(fd: int) -> frozenset[int]:
    """The ids of the maps that a program uses."""
    info = ctypes.create_string_buffer(64)  # struct bpf_prog_info, up to map_ids
    attr = struct.pack("=IIQ", fd, len(info), _address(info))
    bpf(OBJ_GET_INFO_BY_FD, attr)
    (count,) = struct.unpack_from("=I", info, 52)
    ids = (ctypes.c_uint32 * count)()
    asked = ctypes.create_string_buffer(64)
    struct.pack_into("=IQ", asked, 52, count, ctypes.addressof(ids))
    bpf(OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, len(asked), _address(asked)))
    return frozenset(ids)


def prog_map_uses(fd: int) -> tuple[tuple[int, int, int], ...]:
    """The map references of a program: (instruction, map's id, offset into its value), in order.

    This parses the kernel's dump of translated instructions (bpf_insn_prepare_dump): a 64-bit load with
    source BPF_PSEUDO_MAP_FD or BPF_PSEUDO_MAP_VALUE has the id, and then the offset.
    """
    size = prog_info(fd).instructions
    code = ctypes.create_string_buffer(size)
    info = ctypes.create_string_buffer(64)
    struct.pack_into("=I8xQ", info, 20, size, _address(code))
    bpf(OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, len(info), _address(info)))
    raw = code.raw
    return tuple(
        (at // 8, *struct.unpack_from("=I4xI", raw, at + 4))
        for at in range(0, size, 8)
        if raw[at] == _LOAD_64 and raw[at + 1] >> 4 in (_MAP_FD, _MAP_VALUE)
    )


@dataclass(frozen=True, slots=True)
class LinkInfo:
    """The kernel's information about a link of tcx or XDP; ifindex 0 if its device is gone."""

    id: int
    prog_id: int
    ifindex: int
    attach_type: int  # for tcx


def link_info(fd: int) -> LinkInfo:
    """Ask the kernel about a link."""
    raw = _info(fd, 64)
    _kind, ident, prog_id, _, ifindex, attach_type = struct.unpack_from("=6I", raw)
    return LinkInfo(ident, prog_id, ifindex, attach_type)


def link_create_tcx(prog: int, ifindex: int, attach_type: int, *, is_first: bool = False) -> Fd:
    """Attach behind all programs that are already there, or before them."""
    flags = _BEFORE if is_first else 0
    attr = struct.pack("=IIIIIIQ32x", prog, ifindex, attach_type, flags, 0, 0, 0)
    return Fd(bpf(LINK_CREATE, attr))


def link_create_xdp(prog: int, ifindex: int, flags: int) -> Fd:
    """Attach to a device without an XDP program; `flags` are XDP_FLAGS_* of <linux/if_link.h>."""
    return Fd(bpf(LINK_CREATE, struct.pack("=IIII48x", prog, ifindex, ATTACH_XDP, flags)))


def link_create_cgroup(prog: int, cgroup: int, attach_type: int) -> Fd:
    """Attach to a cgroup (a descriptor of its folder), beside the programs that are already there."""
    return Fd(bpf(LINK_CREATE, struct.pack("=IIII48x", prog, cgroup, attach_type, 0)))


def link_create_netfilter(prog: int, family: int, priority: int) -> Fd:
    """Attach to PREROUTING of this network namespace; `family` is a NFPROTO_* number."""
    hook = struct.pack("=IIiI", family, _PREROUTING, priority, 0)
    return Fd(
        bpf(LINK_CREATE, struct.pack("=IIII", prog, 0, ATTACH_NETFILTER, 0) + hook + bytes(32))
    )


def netfilter_link_program(fd: int) -> int:
    """The id of the program of a link of netfilter."""
    (prog_id,) = struct.unpack_from("=I", _info(fd, 64), 8)
    return int(prog_id)


def prog_attach_map(prog: int, map_fd: int, attach_type: int) -> None:
    """Let a map of sockets run the program, in place of another one; sockets in it keep theirs."""
    bpf(PROG_ATTACH, struct.pack("=IIIII", map_fd, prog, attach_type, 0, 0))


def prog_query_map(map_fd: int, attach_type: int) -> tuple[int, ...]:
    """The ids of the programs that a map of sockets runs: one or none."""
    ids = (ctypes.c_uint32 * 1)()
    attr = bytearray(struct.pack("=IIIIQI36x", map_fd, attach_type, 0, 0, _address(ids), 1))
    bpf(PROG_QUERY, attr)
    (count,) = struct.unpack_from("=I", attr, 24)
    return tuple(ids[:count])


def prog_query_tcx(ifindex: int, attach_type: int) -> tuple[int, ...]:
    """The ids of the programs at a device of this network namespace, in their order."""
    ids = (ctypes.c_uint32 * _MPROG_MAX)()
    attr = bytearray(
        struct.pack("=IIIIQI36x", ifindex, attach_type, 0, 0, _address(ids), _MPROG_MAX)
    )
    bpf(PROG_QUERY, attr)
    (count,) = struct.unpack_from("=I", attr, 24)
    return tuple(ids[:count])


def iterate(prog: int, map_fd: int | None = None) -> bytes:
    """All that an iterator program writes; `map_fd` is the map whose elements it is about."""
    which = b"" if map_fd is None else struct.pack("=I", map_fd)  # union bpf_iter_link_info
    info = ctypes.create_string_buffer(which, len(which))
    at = _address(info) if which else 0
    attr = struct.pack("=IIIIQI36x", prog, 0, ATTACH_TRACE_ITER, 0, at, len(which))
    with Fd(bpf(LINK_CREATE, attr)) as link:
        reading = bpf(ITER_CREATE, struct.pack("=II", link, 0))
    with os.fdopen(reading, "rb") as written:
        return written.read()


def cgroup_link_info(fd: int) -> tuple[int, int]:
    """The ids of a cgroup link's program and cgroup; 0 if the cgroup is gone."""
    raw = _info(fd, 64)
    (prog_id,) = struct.unpack_from("=I", raw, 8)
    (cgroup,) = struct.unpack_from("=Q", raw, 16)
    return prog_id, cgroup


def prog_by_id(ident: int) -> Fd:
    """Open a program by its id."""
    return Fd(bpf(PROG_GET_FD_BY_ID, struct.pack("=IIII", ident, 0, 0, 0)))


def link_update(link: int, prog: int) -> None:
    """Replace the program of the link; no packet sees none or both."""
    bpf(LINK_UPDATE, struct.pack("=IIII", link, prog, 0, 0))


def link_detach(link: int) -> None:
    """Detach the program from its device, even if other processes hold the link."""
    bpf(LINK_DETACH, struct.pack("=I", link))


class TestRun:
    """PROG_TEST_RUN with reusable buffers: a few hundred thousand packets per second.

    ifindex and ingress_ifindex are those of the frame as a hook sees it; the device must exist in
    the network namespace of the caller.
    """

    __test__ = False  # no test class, although pytest might think so
    _CTX_SIZE = 192  # size of struct __sk_buff
    _INGRESS_IFINDEX = 36
    _IFINDEX = 40

    def __init__(self, prog: int) -> None:
        self._ctx = bytearray(self._CTX_SIZE)
        self._ctx_buffer = (ctypes.c_char * self._CTX_SIZE).from_buffer(self._ctx)
        self._data = ctypes.create_string_buffer(65536)
        self._attr = bytearray(80)
        self._attr_buffer = (ctypes.c_char * 80).from_buffer(self._attr)
        # prog_fd retval size_in size_out in out repeat duration ctx_in ctx_out ctx ctx ...
        struct.pack_into("=IIIIQQ", self._attr, 0, prog, 0, 0, 0, _address(self._data), 0)
        struct.pack_into("=IIIIQQ", self._attr, 32, 1, 0, 0, 0, 0, 0)
        struct.pack_into("=I", self._attr, 40, self._CTX_SIZE)
        struct.pack_into("=Q", self._attr, 48, _address(self._ctx_buffer))
        self._number = _NUMBERS.get(platform.machine(), 321)

    def __call__(
        self, data: bytes, ifindex: int = 0, ingress_ifindex: int = 0, repeat: int = 1
    ) -> int:
        """The program's verdict on a frame: -1 next, 2 drop.

        Each of `repeat` runs gets the previous run's output; the last verdict counts.
        """
        ctypes.memmove(self._data, data, len(data))
        struct.pack_into("=II", self._ctx, self._INGRESS_IFINDEX, ingress_ifindex, ifindex)
        # The kernel wrote the last frame's size as room for the output: a longer frame would not fit.
        struct.pack_into("=III", self._attr, 4, 0, len(data), 0)
        struct.pack_into("=II", self._attr, 32, repeat, 0)
        if _syscall(self._number, PROG_TEST_RUN, self._attr_buffer, 80) < 0:
            errno = ctypes.get_errno()
            raise OSError(errno, os.strerror(errno))
        return int(struct.unpack_from("=i", self._attr, 4)[0])

    @property
    def nanoseconds(self) -> int:
        """Nanoseconds per run of the last call; the average over its repetitions."""
        return int(struct.unpack_from("=I", self._attr, 36)[0])


_test_runs: dict[int, TestRun] = {}


def prog_test_run(fd: int, data: bytes, ifindex: int = 0, ingress_ifindex: int = 0) -> int:
    """The verdict of a program on one frame: -1 next, 2 drop. At least 14 bytes."""
    run = _test_runs.get(fd)
    if run is None:
        run = _test_runs[fd] = TestRun(fd)
    return run(data, ifindex, ingress_ifindex)


def _info(fd: int, size: int) -> bytes:
    buffer = ctypes.create_string_buffer(size)
    bpf(OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, size, _address(buffer)))
    return buffer.raw


def _name(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode()
