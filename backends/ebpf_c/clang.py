# SPDX-License-Identifier: Apache-2.0
"""Run clang on BPF C: the same source gives the same object, wherever it is compiled."""

import os
import re
from functools import cache
from pathlib import Path

from policyc.ir.errors import HostError, InternalError

FLAGS = (
    "-O2",
    "-g",  # for BTF; the rest of the debug information is stripped
    "-target",
    "bpf",
    "-mcpu=v3",  # v4 is refused by 6.1
    "-fno-strict-aliasing",  # a header access was miscompiled without it
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fdebug-compilation-dir=.",
)


HINT = "apt install clang llvm libbpf-dev linux-libc-dev"


TOOLS = ("clang", "llvm-strip")

SEARCH_VARIABLES = ("CPATH", "C_INCLUDE_PATH")
"""Environment variables that make clang search for headers elsewhere."""


def compile_object(folder: Path, source: str, include: str, target: str) -> tuple[Path, ...]:
    """Compile `folder/source` with the headers of `folder/include` to `folder/target`.

    Paths inside the object are relative to the folder. Returns the headers that were read from outside
    the folder. HostError if clang, llvm-strip or the kernel's user headers are missing; InternalError if
    clang refuses the emitted code.
    """
    clang, strip = find_tool("clang"), find_tool("llvm-strip")
    read = f"{target}.d"
    command = [clang, *flags(include), "-MD", "-MF", read, "-c", source, "-o", target]
    _run(command, folder, source)
    _run([strip, "-g", target], folder, source)
    return _headers(folder / read)


def flags(include: str) -> tuple[str, ...]:
    """The options of clang that can change an object."""
    machine = f"/usr/include/{os.uname().machine}-linux-gnu"  # asm/types.h, for a foreign target
    return *FLAGS, "-I", include, "-idirafter", machine


def _headers(written: Path) -> tuple[Path, ...]:
    """The absolute paths of a make rule that clang wrote; the file is removed."""
    text = written.read_text("utf-8", "surrogateescape").replace("\\\n", " ")
    written.unlink()
    words = re.findall(r"(?:\\.|[^\s\\])+", text.partition(": ")[2])
    paths = (Path(re.sub(r"\\(.)", r"\1", word)) for word in words)
    return tuple(path for path in paths if path.is_absolute())


def clang_version() -> str:
    """The version of clang, as `14.0.6`."""
    said = _run([find_tool("clang"), "--version"], Path.cwd(), "--version")
    found = re.search(r"version (\d+[.\d]*)", said)
    return found[1] if found else "unknown"


def _run(command: list[str], folder: Path, source: str) -> str:
    """The output of a tool. HostError if it cannot be run or is another program."""
    import subprocess  # a run that finds all objects in a cache runs no tool

    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as failure:
        raise HostError(f"{command[0]} cannot be run: {failure.strerror}", HINT) from failure
    if done.returncode:
        _explain(command[0], source, done.stderr)
    return done.stdout


def tool_identity(name: str) -> str:
    """The file of a tool, and its modification time: another one may make other objects."""
    path = Path(find_tool(name)).resolve()
    about = path.stat()
    return f"{path} {about.st_size} {about.st_mtime_ns}"


def is_asked_for_or_installed() -> bool:
    """Whether both tools are installed, or a variable names one, which is then needed."""
    return any(os.environ.get(_variable(name)) for name in TOOLS) or all(map(_on_path, TOOLS))


@cache
def find_tool(name: str) -> str:
    """The path of a tool of LLVM. `POLICYC_CLANG` and `POLICYC_LLVM_STRIP` override the search."""
    variable = _variable(name)
    found = _on_path(os.environ.get(variable) or name)
    if found is None:
        raise HostError(
            f"{name} is not installed; nothing was compiled",
            f"{HINT}, or set {variable}, or compile with --backend llvm",
        )
    return str(found.absolute())  # it is run from another directory


def _variable(name: str) -> str:
    return "POLICYC_" + name.upper().replace("-", "_")


def _on_path(name: str) -> Path | None:
    """The program that a shell would run by this name; loading `shutil` is slower than writing a bundle.

    As for a shell, a folder that may not be read has no tool.
    """
    path = os.environ.get("PATH", os.defpath)
    folders = [""] if os.sep in name else path.split(os.pathsep) if path else []
    paths = (Path(folder, name) for folder in folders)
    # Test first whether it may be run: that raises no error, whatever a folder is.
    return next((path for path in paths if os.access(path, os.X_OK) and path.is_file()), None)


def _explain(tool: str, source: str, errors: str) -> None:
    missing = re.search(r"fatal error: '([^']+)' file not found", errors)
    if missing:
        raise HostError(f"the header <{missing[1]}> is missing", HINT)
    if f"{source}:" not in errors:
        raise HostError(f"{tool} failed: {errors.strip() or 'it did not say why'}", HINT)
    raise InternalError(f"clang refuses {source}:\n{errors}")
