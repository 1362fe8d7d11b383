# SPDX-License-Identifier: Apache-2.0
"""A certificate as text: the statement, its assumptions, and the problems found with it."""

from policyc.backends.report.formats.text import show_difference, show_possible
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.page import BAD, FAINT, GOOD, STRONG, Page
from policyc.backends.report.words import left_out_words, opaque_notes
from policyc.ir.results.certificate import Certificate, Equivalence

FORMAT = "text"
_SAYS = {
    Equivalence.EQUAL: "both sides give the same verdicts at both ends of every flow",
    Equivalence.DIFFERENT: "the sides give different verdicts at an end of some flow",
    Equivalence.UNDECIDED: "a solver gave up, so nothing is proved",
}


_BY_OPAQUE = "it depends on rules that policyc does not support"


def certificate_text(result: Certificate, options: ReportOptions) -> str:
    """The answer first, then everything that a reader needs to check it."""
    page = Page()
    style = GOOD if result.result is Equivalence.EQUAL else BAD
    says = _BY_OPAQUE if result.possible and not result.differences else _SAYS[result.result]
    page.add((result.result.value, f"{STRONG} {style}"), f": {says}")
    page.add(f"A: {result.before}", indent=2)
    page.add(f"B: {result.after}", indent=2)
    if result.undecided:
        page.add(f"undecided: {result.undecided}", indent=2)
    for number, difference in enumerate(result.differences, start=1):
        page.gap()
        show_difference(page, number, difference, result.universe)
    page.gap()
    omitted = left_out_words(result.counts, result.differences)
    if omitted and result.result is Equivalence.DIFFERENT:
        page.add(f"{omitted}; `policyc diff --all` shows every region")
    show_possible(page, result.possible, len(result.differences), result.universe)
    for note in opaque_notes(result.opaque):
        page.add(f"note: {note}")
    page.add(f"universe: {result.universe.words}")
    solvers = ", ".join(f"{name} {version}" for name, version in result.solvers)
    page.add(f"method: {'; '.join(part for part in (result.method, solvers) if part)}")
    for each in result.obligations:
        answers = ", ".join(f"{solver}: {answer}" for solver, _, answer in each.answers)
        page.add(f"goal {each.digest[:16]} {each.what}: {answers}", indent=2)
    for given in result.inputs:
        page.add((f"input {given.side} sha256:{given.sha256[:16]} {given.path}", FAINT), indent=2)
    if result.checked is not None:
        page.add(f"checked: {result.checked}")
    for fault in result.faults:
        page.add(("differs from the certificate", f"{STRONG} {BAD}"), f": {fault}")
    return page.to_text(options)


RENDERERS = {Certificate: certificate_text}
