# SPDX-License-Identifier: Apache-2.0
"""Every source file names its licence in its first two lines: BPF C the dual one, all else Apache."""

import sys
from pathlib import Path

APACHE = "SPDX-License-Identifier: Apache-2.0"
DUAL = "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause"


def expected(path: Path) -> str:
    """The header a file must have."""
    return DUAL if path.suffix in (".c", ".h") else APACHE


def main(arguments: list[str]) -> int:
    """Print the files without their header; 1 if there are any."""
    bad = []
    for name in arguments:
        text = Path(name).read_text()
        if text and expected(Path(name)) not in "\n".join(text.splitlines()[:2]):
            bad.append(f"{name}: expected {expected(Path(name))}")
    print("\n".join(bad), end="\n" if bad else "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
