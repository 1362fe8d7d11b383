# SPDX-License-Identifier: Apache-2.0
"""C without its comments and blank lines: the text that is compiled.

The comments of a policy program name rules and their lines, which move with every edit of a file.
The compiled text must not change with them: if the code is the same, the object is the same, byte for
byte.
"""

import re

_TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?P<comment>/\*.*?\*/|//[^\n]*)', re.DOTALL
)


def bare_text(text: str) -> str:
    """The text with each comment as one space, and without trailing spaces and blank lines."""
    without = _TOKEN.sub(lambda found: " " if found["comment"] else found[0], text)
    lines = (line.rstrip() for line in without.splitlines())
    return "".join(f"{line}\n" for line in lines if line)
