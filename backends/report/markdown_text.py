# SPDX-License-Identifier: Apache-2.0
"""Foreign text inside Markdown: shown as it is, without any effect.

It goes into `<code>`, where GitHub makes no links of mentions, issues and commits. Every character that
Markdown or HTML would interpret is written as a character reference.
"""

import re

from policyc.ir.printable import printable

MAX_TEXT = 300
_SPECIAL = re.compile(r"[&<>`*_{}\[\]#+!|~\\@$^]|://|www\.")


def code(text: str) -> str:
    """User text as inline code, on one line and at most `MAX_TEXT` characters of it."""
    clipped = text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
    return f"<code>{escaped(clipped)}</code>"


def escaped(text: str) -> str:
    """User text on one line, with every special character escaped, in table cells too."""
    return _SPECIAL.sub(lambda found: _references(found.group()), printable(text))


def _references(text: str) -> str:
    """Its first character as a reference: that is enough to disable a markup."""
    return f"&#{ord(text[0])};{text[1:]}"
