# SPDX-License-Identifier: Apache-2.0
"""What takes long to make is made once a run, and not once a worker."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(temporary: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that the first worker that asks fills; the others wait for it. No test changes it."""
    own = temporary.getbasetemp()
    root = own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own
    folder, partial = root / name, root / f"{name}.partial-{os.getpid()}"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            partial.mkdir()
            try:
                make(partial)
            except BaseException:
                shutil.rmtree(partial)  # the next one that asks meets the same error
                raise
            partial.rename(folder)
    return folder
