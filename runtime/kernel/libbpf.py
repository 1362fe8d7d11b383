# SPDX-License-Identifier: Apache-2.0
"""The distribution's libbpf, by ctypes: opens an object, sets where its maps are pinned, loads it.

An `Object` owns libbpf's memory. Programs and maps outlive it only by their pins. A verifier error
becomes one or two lines; `HostError.detail` has the whole log.
"""

import ctypes
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall, shared_maps

_SONAME = "libbpf.so.1"
_PRINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
SAMPLE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
"""The callback of libbpf for each record of a ring buffer: context, record, its size."""
_LOG_LIMIT = 1 << 20
_DEBUG = 2  # LIBBPF_DEBUG

NETFILTER, MAP_ITERATOR = "netfilter", "iter/bpf_sk_storage_map"
"""Sections of programs that not every kernel takes."""
_PROBED = {
    NETFILTER: (bpf_syscall.PROG_TYPE_NETFILTER, bpf_syscall.ATTACH_NETFILTER, ""),
    MAP_ITERATOR: (
        *(bpf_syscall.PROG_TYPE_TRACING, bpf_syscall.ATTACH_TRACE_ITER),
        "bpf_sk_storage_map",
    ),
}
"""By section: the types of the program, and what it iterates."""

_libc = ctypes.CDLL(None)
_messages: list[str] = []


class _OpenOpts(ctypes.Structure):
    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("object_name", ctypes.c_char_p),
        ("relaxed_maps", ctypes.c_bool),
        ("pin_root_path", ctypes.c_char_p),
        ("reserved", ctypes.c_uint32),
        ("kconfig", ctypes.c_char_p),
        ("btf_custom_path", ctypes.c_char_p),
    )


def _collect(level: int, form: bytes, arguments: int) -> int:
    if level >= _DEBUG:  # hundreds of lines per load, which no error needs
        return 0
    line = ctypes.create_string_buffer(_LOG_LIMIT)
    _libc.vsnprintf(line, _LOG_LIMIT, form, ctypes.c_void_p(arguments))
    _messages.append(line.value.decode(errors="replace"))
    return 0


_callback = _PRINT(_collect)  # kept while libbpf may call it


@cache
def library() -> Any:
    """The library, with its functions declared; `HostError` if it is not installed."""
    try:
        lib = ctypes.CDLL(_SONAME, use_errno=True)
    except OSError as error:
        raise HostError(
            f"{_SONAME} cannot be loaded: {error}", "install libbpf 1.1 or later (Debian: libbpf1)"
        ) from error
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, arguments in (
        ("bpf_object__open_file", pointer, (text, ctypes.POINTER(_OpenOpts))),
        ("bpf_object__load", ctypes.c_int, (pointer,)),
        ("bpf_object__close", None, (pointer,)),
        ("bpf_object__find_map_by_name", pointer, (pointer, text)),
        ("bpf_object__find_program_by_name", pointer, (pointer, text)),
        ("bpf_object__next_map", pointer, (pointer, pointer)),
        ("bpf_object__next_program", pointer, (pointer, pointer)),
        ("bpf_map__fd", ctypes.c_int, (pointer,)),
        ("bpf_map__name", text, (pointer,)),
        ("bpf_map__pin_path", text, (pointer,)),
        ("bpf_map__initial_value", pointer, (pointer, ctypes.POINTER(ctypes.c_size_t))),
        ("bpf_program__fd", ctypes.c_int, (pointer,)),
        ("bpf_program__set_autoload", ctypes.c_int, (pointer, ctypes.c_bool)),
        ("bpf_program__section_name", text, (pointer,)),
        ("bpf_program__set_type", ctypes.c_int, (pointer, ctypes.c_int)),
        ("bpf_program__set_expected_attach_type", ctypes.c_int, (pointer, ctypes.c_int)),
        ("libbpf_find_vmlinux_btf_id", ctypes.c_int, (text, ctypes.c_int)),
        ("libbpf_set_print", pointer, (_PRINT,)),
        ("ring_buffer__new", pointer, (ctypes.c_int, SAMPLE, pointer, pointer)),
        ("ring_buffer__poll", ctypes.c_int, (pointer, ctypes.c_int)),
        ("ring_buffer__free", None, (pointer,)),
    ):
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    lib.libbpf_set_print(_callback)
    return lib


@cache
def takes(section: str) -> bool:
    """Whether this kernel takes programs of a section, `NETFILTER` or `MAP_ITERATOR`; tried once."""
    kind, attach_type, name = _PROBED[section]
    function = 0
    if name:
        function = library().libbpf_find_vmlinux_btf_id(name.encode(), attach_type)
    return function >= 0 and bpf_syscall.takes_program(kind, attach_type, function)


class Object:
    """A BPF object that is loaded into the kernel, without programs that this kernel does not take.

    Maps that the object pins by name are looked up under `pin_root`. An existing one is used (libbpf
    refuses another definition), and a missing one is created.
    """

    def __init__(self, path: Path, pin_root: Path) -> None:
        self._lib = library()
        self._path = path
        self._root = os.fsencode(pin_root)  # libbpf copies it only when open returns
        options = _OpenOpts(sz=ctypes.sizeof(_OpenOpts), pin_root_path=self._root)
        _messages.clear()
        self._object = self._lib.bpf_object__open_file(os.fsencode(path), ctypes.byref(options))
        if not self._object:
            raise HostError(f"{path.name}: libbpf cannot open it", detail="".join(_messages))
        self._prepare()

    def _prepare(self) -> None:
        """Leave out what this kernel does not take; libbpf knows netfilter only from 1.3 on."""
        at = self._lib.bpf_object__next_program(self._object, None)
        while at:
            section = self._lib.bpf_program__section_name(at).decode()
            if section in _PROBED and not takes(section):
                self._lib.bpf_program__set_autoload(at, False)
            elif section == NETFILTER:
                self._lib.bpf_program__set_type(at, bpf_syscall.PROG_TYPE_NETFILTER)
                self._lib.bpf_program__set_expected_attach_type(at, bpf_syscall.ATTACH_NETFILTER)
            at = self._lib.bpf_object__next_program(self._object, at)

    def load(self) -> None:
        """Create the maps that are missing, verify and load the programs."""
        shared_maps.check(self._path, Path(os.fsdecode(self._root)))
        _messages.clear()
        result = self._lib.bpf_object__load(self._object)
        if result:
            raise _load_error(self._path.name, -result, "".join(_messages))

    def has_program(self, name: str) -> bool:
        """Whether the object has a program of that name."""
        return bool(self._lib.bpf_object__find_program_by_name(self._object, name.encode()))

    def leave_out(self, names: Iterable[str]) -> None:
        """Do not load these programs, as far as the object has them. Before `load`."""
        for name in names:
            program = self._lib.bpf_object__find_program_by_name(self._object, name.encode())
            if program:
                self._lib.bpf_program__set_autoload(program, False)

    def set_constants(self, section: str, values: bytes) -> None:
        """Set the constants in a section of their own, `.rodata.NAME`. Before `load`."""
        at = self._lib.bpf_object__find_map_by_name(self._object, section.encode())
        size = ctypes.c_size_t()
        data = self._lib.bpf_map__initial_value(at, ctypes.byref(size)) if at else None
        if not data or size.value != len(values):
            raise HostError(
                f"{self._path.name} has no {section} of {len(values)} bytes",
                "compile the bundle again",
            )
        ctypes.memmove(data, values, len(values))

    def is_loaded(self, name: str) -> bool:
        """Whether the kernel has the program of that name. After `load`."""
        program = self._lib.bpf_object__find_program_by_name(self._object, name.encode())
        return bool(program) and int(self._lib.bpf_program__fd(program)) >= 0

    def program_fd(self, name: str) -> int:
        """The program's descriptor, valid as long as the object."""
        program = self._lib.bpf_object__find_program_by_name(self._object, name.encode())
        if not program:
            raise HostError(
                f"{self._path.name} has no program `{name}`", "compile the bundle again"
            )
        fd = int(self._lib.bpf_program__fd(program))
        if fd < 0:
            raise HostError(f"{self._path.name}: the program `{name}` was left out")
        return fd

    def map_fd(self, name: str) -> int:
        """The map's descriptor, valid as long as the object."""
        found = self._lib.bpf_object__find_map_by_name(self._object, name.encode())
        if not found:
            raise HostError(f"{self._path.name} has no map `{name}`", "compile the bundle again")
        return int(self._lib.bpf_map__fd(found))

    def own_maps(self) -> Iterator[tuple[str, int]]:
        """Name and descriptor of the maps that are not shared by pins."""
        at = self._lib.bpf_object__next_map(self._object, None)
        while at:
            if not self._lib.bpf_map__pin_path(at):
                yield self._lib.bpf_map__name(at).decode(), int(self._lib.bpf_map__fd(at))
            at = self._lib.bpf_object__next_map(self._object, at)

    def close(self) -> None:
        """Release everything that is not pinned."""
        if self._object:
            self._lib.bpf_object__close(self._object)
            self._object = None

    def __enter__(self) -> "Object":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _load_error(name: str, errno: int, log: str) -> HostError:
    """Summarise in a line or two why the kernel or libbpf refused."""
    refused = re.search(r"couldn't reuse pinned map at '([^']+)': parameter mismatch", log)
    if refused:
        return shared_maps.other_layout(name, Path(refused[1]).name, log)
    reason = os.strerror(errno)
    return HostError(f"{name}: the kernel refused it: {summarise(log) or reason}", detail=log)


def summarise(log: str) -> str:
    """The verifier's last message before its statistics, and the instruction."""
    found = re.search(r"BEGIN PROG LOAD LOG --\n(.*?)(?:-- END PROG LOAD LOG|\Z)", log, re.S)
    if not found:
        complaints = [line for line in log.splitlines() if line.startswith("libbpf: ")]
        return complaints[0].removeprefix("libbpf: ") if complaints else ""
    lines = [line for line in found[1].splitlines() if line.strip()]
    while lines and re.match(r"processed \d+ insns|verification time|stack depth", lines[-1]):
        lines.pop()
    at = [i for i, line in enumerate(lines) if re.match(r"\d+: \(", line)]
    complaint = "; ".join(line.strip() for line in lines[at[-1] + 1 if at else -1 :])
    return f"{complaint} (at {lines[at[-1]].strip()})" if at else complaint
