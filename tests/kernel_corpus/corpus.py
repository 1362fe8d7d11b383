# SPDX-License-Identifier: Apache-2.0
"""All cases of the corpus, and the cases of every test run."""

from functools import cache

from tests.kernel_corpus.case import CorpusCase
from tests.kernel_corpus.sizes import size_cases
from tests.kernel_corpus.written import (
    example_cases,
    feature_cases,
    together_cases,
    variant_cases,
)

SLICE = ("node-n1",)
"""Loaded by `make test`, as none takes long to decide; `make test-all` loads the whole corpus."""

ASKED = (
    "cidr-both-families",
    "named-ports-ingress",
    "calico-icmp",
    "calico-protocols",
    "calico-own-addresses",
    "all-together-calico",
    "all-together-cilium",
    "counters-none",
    "node-n1",
    "example-online-shop",
    "alike-diagrams",
    "close-blocks",
)
"""Those that are asked for verdicts as well; their clusters are known and small."""


@cache
def all_cases() -> tuple[CorpusCase, ...]:
    """Every case, in the order of the table. They are shared: no caller may change them."""
    return (*feature_cases(), *together_cases(), *variant_cases(), *example_cases(), *size_cases())


def cases_named(names: tuple[str, ...]) -> tuple[CorpusCase, ...]:
    """These cases, in the order of the table; all without names. KeyError for a name that is none."""
    found = all_cases()
    unknown = set(names) - {case.name for case in found}
    if unknown:
        raise KeyError(f"the corpus has no {', '.join(sorted(unknown))}")
    return tuple(case for case in found if not names or case.name in names)
