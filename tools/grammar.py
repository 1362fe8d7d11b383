# SPDX-License-Identifier: Apache-2.0
"""Generates the lexer and parser in grammar/generated, or with --check proves that they are fresh.

`antlr4-tools` (in the lock file) fetches ANTLR's jar from Maven Central once; its digest is pinned here.
Needs Java. The output depends on the grammars and the version alone.
"""

import filecmp
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import antlr4_tool_runner

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("PolicycLexer.g4", "PolicycParser.g4")
GENERATED = ROOT / "grammar" / "generated"
MODULES = ("PolicycLexer.py", "PolicycParser.py")
VERSION = "4.13.2"
DIGEST = "eae2dfa119a64327444672aff63e9ec35a20180dc5b8090b7a6ab85125df4d76"


def jar() -> Path:
    """ANTLR's jar, as published."""
    antlr4_tool_runner.initialize_paths()
    found = antlr4_tool_runner.antlr4_jar(VERSION)
    if found is None:
        sys.exit(f"grammar: cannot fetch ANTLR {VERSION} from Maven Central")
    path = Path(found)
    if hashlib.sha256(path.read_bytes()).hexdigest() != DIGEST:
        sys.exit(f"grammar: {path} is not ANTLR {VERSION}: remove it and run again")
    return path


def generate(folder: Path) -> None:
    """Write the modules into `folder`, each below a licence header."""
    for name in SOURCES:
        (folder / name).write_bytes((ROOT / "grammar" / name).read_bytes())
    options = ["-Dlanguage=Python3", "-no-listener", "-no-visitor", "-Werror"]
    command = ["java", "-cp", str(jar()), "org.antlr.v4.Tool", *options, *SOURCES]
    subprocess.run(command, cwd=folder, check=True)
    for name in MODULES:
        text = (folder / name).read_text()
        (folder / name).write_text(f"# SPDX-License-Identifier: Apache-2.0\n{text}")


def main(arguments: list[str]) -> int:
    """Generate; with --check, only compare. 1 where something is not what the grammars say."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder)
        if arguments == ["--check"]:
            stale = [m for m in MODULES if not _is_equal(folder / m, GENERATED / m)]
            for module in stale:
                print(f"grammar/generated/{module} is not what the grammars say: make grammar")
            return 1 if stale else 0
        for module in MODULES:
            (GENERATED / module).write_bytes((folder / module).read_bytes())
    return 0


def _is_equal(one: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(one, other, shallow=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
