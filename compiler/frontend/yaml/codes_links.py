# SPDX-License-Identifier: Apache-2.0
"""The findings about directory entries other than regular files: symbolic links, FIFOs, devices."""

from policyc.ir.diagnostics import Code, Diagnostic, Severity
from policyc.ir.spans import Span

_E = Severity.ERROR

UNREAD_LINK = Code("PC0126", _E, "{name} is a symbolic link to {target}, which is not read here")
LINK_LEADS_OUT = Code("PC0129", _E, "{name} is a symbolic link that leads out of {folder}")
BROKEN_LINK = Code("PC0130", _E, "{name} is a symbolic link to {target}, which does not exist")
NOT_REGULAR = Code("PC0131", _E, "{name} is {what}: in a directory only regular files are read")
LINKS_PASSED_OVER = Code("PC0132", Severity.NOTE, "skipped: {links}")

LEADS_OUT_HINT = "replace the link with the file, or give its target on the command line"
BROKEN_HINT = "remove the link, or correct its target"
UNREAD_HINT = "give its target, or a directory that contains both"
NOT_REGULAR_HINT = "remove it; a FIFO or device can be read where the command line names it"


def passed_over(name: str, count: int) -> Diagnostic:
    """The note that a directory has links that are not followed: their targets are read directly."""
    links = "1 symbolic link" if count == 1 else f"{count} symbolic links"
    where = "policyc already reads the target inside the directory"
    return LINKS_PASSED_OVER.at(Span(name, 0, 0), links=f"{links}; {where}")
