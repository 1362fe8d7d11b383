# SPDX-License-Identifier: Apache-2.0
"""Objects from C: each distinct text is compiled once per process, and once in all with a build cache.

A cached object depends on the bare text, the headers that travel with it, the options, clang and
llvm-strip, and the system's headers. Their digests are stored in the entry, and compared before use.
"""

import hashlib
import json
import os
from functools import cache, lru_cache
from pathlib import Path

from policyc.backends.ebpf_c import clang
from policyc.backends.ebpf_c.bare import bare_text
from policyc.compiler.driver.cache.build_cache import (
    BuildCache,
    key_of,
)
from policyc.compiler.driver.installed import folder_of

DATAPATH = "datapath"


@cache
def datapath_files() -> dict[str, bytes]:
    """The C sources of objects, by name; the bundle contains them."""
    files = sorted(folder_of("policyc.runtime.datapath").iterdir())
    return {item.name: item.read_bytes() for item in files if item.name.endswith((".h", ".c"))}


def policy_object(text: str, build_cache: BuildCache | None) -> bytes:
    """The object of a policy program; comments do not affect it."""
    return _object("policy.bpf.c", bare_text(text), build_cache)


def node_object(name: str, build_cache: BuildCache | None) -> bytes:
    """An object that is the same for every policy, by its name: `hooks.bpf.o` is from `hooks.bpf.c`."""
    source = f"{name.removesuffix('.o')}.c"
    text = datapath_files()[source].decode()
    return _object(f"{DATAPATH}/{source}", text, build_cache)


def clang_release(build_cache: BuildCache | None) -> str:
    """The version of clang; it is read once for each clang that a build cache has seen."""
    key = key_of("clang", clang.tool_identity("clang"))
    found = build_cache.get(key) if build_cache else None
    if found is not None:
        return found.decode()
    said = _release_of(clang.tool_identity("clang"))
    if build_cache:
        build_cache.put(key, said.encode())
    return said


@cache
def _release_of(_identity: str) -> str:
    return clang.clang_version()


def _object(source: str, text: str, build_cache: BuildCache | None) -> bytes:
    if build_cache is None:
        return _compiled(source, text)[0]
    key = _key(source, text)
    found = _unchanged(build_cache.get(key))
    if found is None:
        found, headers = _compiled(source, text)
        digests = {str(path): _digest(path) for path in headers}
        build_cache.put(key, json.dumps(digests).encode() + b"\n" + found)
    return found


def _key(source: str, text: str) -> str:
    tools = (clang.tool_identity("clang"), clang.tool_identity("llvm-strip"))
    search = (os.environ.get(name, "") for name in clang.SEARCH_VARIABLES)
    files = (part for pair in datapath_files().items() for part in pair)
    return key_of("object", source, text, *clang.flags(DATAPATH), *tools, *search, *files)


def _unchanged(entry: bytes | None) -> bytes | None:
    """The object of an entry, if the system's headers are still those of its compilation."""
    if entry is None:
        return None
    head, _, found = entry.partition(b"\n")
    digests: dict[str, str] = json.loads(head)
    return found if all(_digest(Path(name)) == known for name, known in digests.items()) else None


@cache
def _digest(path: Path) -> str:
    """The SHA-256 of a header, "" if it is gone."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


@lru_cache(maxsize=64)
def _compiled(source: str, text: str) -> tuple[bytes, tuple[Path, ...]]:
    """The object, and the system's headers that it was compiled with."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="policyc-") as folder:
        work = Path(folder)
        (work / DATAPATH).mkdir()
        for name, data in datapath_files().items():
            (work / DATAPATH / name).write_bytes(data)
        (work / source).write_text(text, encoding="utf-8")
        headers = clang.compile_object(work, source, DATAPATH, "out.bpf.o")
        return (work / "out.bpf.o").read_bytes(), headers
