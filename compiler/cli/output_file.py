# SPDX-License-Identifier: Apache-2.0
"""Writing the file that a command's --output names."""

import os
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
