# SPDX-License-Identifier: Apache-2.0
"""An object that several workers compile is compiled once a run.

clang takes seconds for the hooks, and half a second for a policy program. Another source, other headers
or another clang make another object.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from policyc.backends.ebpf_c import clang
from policyc.compiler.driver.compile.objects import DATAPATH
from tests.shared import made_once


@contextmanager
def compiled_once(temporary: pytest.TempPathFactory) -> Iterator[None]:
    """In this process `compile_object` takes such an object from the first worker that compiled it."""
    compile_object = clang.compile_object

    def compiled(folder: Path, source: str, include: str, target: str) -> tuple[Path, ...]:
        if include != DATAPATH or any(os.environ.get(name) for name in clang.SEARCH_VARIABLES):
            return compile_object(folder, source, include, target)

        def make(made: Path) -> None:
            headers = compile_object(folder, source, include, target)
            shutil.copy(folder / target, made / "object")
            (made / "headers").write_text(json.dumps([str(path) for path in headers]))

        made = made_once(temporary, f"node-object-{_digest(folder, include, source)}", make)
        shutil.copy(made / "object", folder / target)
        return tuple(map(Path, json.loads((made / "headers").read_text())))

    with mock.patch.object(clang, "compile_object", compiled):
        yield


def _digest(folder: Path, include: str, source: str) -> str:
    """Of all that an object depends on, but for the system's headers, which no test changes."""
    tools = [clang.tool_identity(tool) for tool in ("clang", "llvm-strip")]
    whole = hashlib.sha256(repr((source, clang.flags(DATAPATH), tools)).encode())
    for path in (folder / source, *sorted((folder / include).iterdir())):
        whole.update(path.name.encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()
