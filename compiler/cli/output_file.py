# SPDX-License-Identifier: Apache-2.0
"""Writing the file that a command's --output names, and replacing files of the input."""

import os
import stat
import tempfile
from pathlib import Path

from policyc.compiler.driver.codes import CANNOT_WRITE
from policyc.ir.errors import InputError
from policyc.ir.spans import Span


def write_whole(output: Path, text: str) -> None:
    """Write the whole file or nothing; InputError if it cannot be written."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(output)
    except OSError as failure:
        reason = failure.strerror or str(failure)
        found = CANNOT_WRITE.at(Span(str(output), 0, 0), target=output, reason=reason)
        raise InputError([found]) from failure


def replace_file(name: str, data: bytes) -> None:
    """Write beside the file and rename, so that it is never partly written; its mode stays.

    A link keeps pointing to the file, which is the one replaced. Raises OSError.
    """
    path = Path(os.path.realpath(name))
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        raise OSError(0, "it is not a file that can be replaced; use - for streams")
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        Path(beside).chmod(mode & 0o7777)
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
