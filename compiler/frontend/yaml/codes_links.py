# SPDX-License-Identifier: Apache-2.0
"""The findings about what a directory has beside regular files: symbolic links, FIFOs, devices."""

from policyc.ir.diagnostics import Code, Diagnostic, Severity
from policyc.ir.spans import Span

_E = Severity.ERROR

UNREAD_LINK = Code("PC0126", _E, "{name} is a symbolic link to {target}, which is not read here")
LINK_LEADS_OUT = Code("PC0129", _E, "{name} is a symbolic link that leads out of {folder}")
BROKEN_LINK = Code("PC0130", _E, "{name} is a symbolic link to {target}, which leads to no file")
NOT_REGULAR = Code("PC0131", _E, "{name} is {what}: in a directory only regular files are read")
LINKS_PASSED_OVER = Code("PC0132", Severity.NOTE, "passed over: {links}")

LEADS_OUT_HINT = (
    "put the file in the place of the link, or name what it leads to on the command line"
)
BROKEN_HINT = "remove the link, or correct its target"
UNREAD_HINT = "name what it leads to, or a directory that has both"
NOT_REGULAR_HINT = "remove it; a FIFO or device can be read where the command line names it"


def passed_over(name: str, count: int) -> Diagnostic:
    """The note that a directory has links that are not followed: what counts is read in its place."""
    links = "1 symbolic link" if count == 1 else f"{count} symbolic links"
    where = "what is inside the directory is read in its own place"
    return LINKS_PASSED_OVER.at(Span(name, 0, 0), links=f"{links}; {where}")
