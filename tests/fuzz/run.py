# SPDX-License-Identifier: Apache-2.0
"""Feed a target with what coverage finds: `python -m tests.fuzz.run NAME FOLDER... [OPTIONS]`.

OPTIONS are libFuzzer's. The first folder gets what is found, the others are read. An input that breaks
the target is written to `-artifact_prefix`, and the run ends with it.
"""

import sys

import atheris

_PARSERS = (
    "policyc.compiler.frontend",
    "policyc.grammar",
    "policyc.verifier.bytecode",
    "policyc.runtime.kernel.btf",
)


def main(arguments: list[str]) -> None:
    """Run until libFuzzer ends the process."""
    name, *options = arguments
    with atheris.instrument_imports(include=list(_PARSERS)):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    atheris.Setup([f"fuzz-{name}", *options], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
