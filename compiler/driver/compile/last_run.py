# SPDX-License-Identifier: Apache-2.0
"""The place where a run leaves its record for the next run (`rebuild/`), and its lookup."""

import sys

from policyc.compiler.driver.cache.build_cache import (
    BuildCache,
    key_of,
    source_digest,
)
from policyc.compiler.driver.compile.inputs import (
    Inputs,
    context_of,
)
from policyc.compiler.driver.compile.target import Target
from policyc.compiler.driver.installed import release_of
from policyc.compiler.driver.z3_release import z3_release

_CODE = (
    "policyc.ir",
    "policyc.verifier",
    "policyc.backends.ebpf_c",
    "policyc.backends.llvm",
    "policyc.compiler.frontend",
    "policyc.compiler.driver",
)
"""The packages whose code a record depends on."""


def record_key(inputs: Inputs, target: Target) -> str:
    """The key of the record of runs with the same paths, options and target."""
    code = source_digest(*_CODE)
    with_what = (sys.version, release_of("PyYAML"), z3_release())
    return key_of("record", code, *with_what, context_of(inputs, target))


def has_record(cache: BuildCache, inputs: Inputs, target: Target) -> bool:
    """Whether an earlier run left a record."""
    return cache.has(record_key(inputs, target))
