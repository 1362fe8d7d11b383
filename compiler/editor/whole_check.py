# SPDX-License-Identifier: Apache-2.0
"""Check of all files in a process of its own, which the next edit ends.

The process reads a `Folder` from standard input and writes the findings to standard output, pickled.
Both ends are the same installation.
"""

import pickle
import sys

from policyc.compiler.driver.check.check import check
from policyc.compiler.driver.check.input import ToCheck
from policyc.compiler.driver.compile.compile import Read
from policyc.compiler.editor.folder import Folder
from policyc.compiler.editor.near_check import options_of, shown
from policyc.compiler.editor.reading import read_all
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError

COMMAND = (sys.executable, "-P", "-m", "policyc.compiler.editor.whole_check")


def whole_check(folder: Folder) -> tuple[Diagnostic, ...]:
    """All findings of reading and check. With an error in a file, those of reading alone."""
    reading = read_all(folder)
    found = tuple(each for items in reading.findings.values() for each in items)
    if reading.broken or not reading.is_whole:
        return found
    given = ToCheck(Read(reading.policies, reading.cluster), tuple(folder.files.values()))
    try:
        checked = check(given, options_of(reading), lambda _: None, folder.settings.check)
    except InputError as failure:
        return (*found, *failure.findings)
    return shown(checked)


def main() -> None:
    """Answer one question."""
    folder = pickle.load(sys.stdin.buffer)
    assert isinstance(folder, Folder)
    pickle.dump(whole_check(folder), sys.stdout.buffer)


if __name__ == "__main__":
    main()
