# SPDX-License-Identifier: Apache-2.0
"""The proof of a bundle as text: the answer, then each part of it, and its assumptions."""

from policyc.backends.report.options import ReportOptions
from policyc.backends.report.page import BAD, FAINT, GOOD, STRONG, WARN, Page
from policyc.ir.results.prove import ProofStatus, ProveResult

FORMAT = "text"
_SAYS = {
    ProofStatus.PROVED: "the bytecode and its tables implement the policies",
    ProofStatus.REFUTED: "this bundle does not implement the policies",
    ProofStatus.UNDECIDED: "some part is undecided",
}
_STYLE = {ProofStatus.PROVED: GOOD, ProofStatus.REFUTED: BAD, ProofStatus.UNDECIDED: WARN}


def prove_text(result: ProveResult, options: ReportOptions) -> str:
    """The answer first."""
    page = Page()
    status = result.status
    page.add((status.value, f"{STRONG} {_STYLE[status]}"), f": {_SAYS[status]}")
    page.add(f"bundle: {result.bundle}", indent=2)
    page.gap()
    for part in result.parts:
        claims = f" ({part.claims} claims)" if part.claims else ""
        page.add((part.status.value, _STYLE[part.status]), f" {part.lemma}: {part.what}{claims}")
        for fault in part.faults:
            page.add(fault, indent=2)
    page.gap()
    page.add(f"universe: {result.universe.words}")
    page.add("solvers: " + ", ".join(f"{name} {version}" for name, version in result.solvers))
    for each in result.assumptions:
        page.add((f"assumed: {each}", FAINT))
    return page.to_text(options)


RENDERERS = {ProveResult: prove_text}
