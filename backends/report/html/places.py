# SPDX-License-Identifier: Apache-2.0
"""Places of the source on the page: links to excerpts, and the excerpts that were linked."""

from collections.abc import Iterable, Mapping

from policyc.backends.report.html.markup import Markup, joined, tag, text
from policyc.backends.report.verdicts import where
from policyc.ir.counts import counted
from policyc.ir.policy import Policy
from policyc.ir.results.common import Place
from policyc.ir.results.places import place_of_policy
from policyc.ir.results.report import Excerpt
from policyc.ir.spans import Span

NO_RULE = "no rule: the default"


class Places:
    """Numbers the excerpts in the order in which the page links to them."""

    def __init__(self, excerpts: Mapping[Span, Excerpt]) -> None:
        self._excerpts = excerpts
        self._linked: dict[Span, tuple[int, str]] = {}

    def link(self, place: Place) -> Markup:
        """The name of a rule or policy and its position, a link if there is an excerpt."""
        position = tag("span", where(place.span), class_="file")
        if place.span not in self._excerpts:
            return joined((place.words, " ", position))
        number, _ = self._linked.setdefault(place.span, (len(self._linked), place.words))
        target = f"#rule-{number}"
        return joined((tag("a", place.words, href=target, class_="rule"), " ", position))

    def links(self, places: Iterable[Place], otherwise: str = NO_RULE) -> Markup:
        """The places as a list, or a word if there is none."""
        found = [tag("li", self.link(place)) for place in places]
        return tag("ul", *found, class_="places") if found else text(otherwise)

    def policy(self, policy: Policy) -> Markup:
        """A link to a whole policy."""
        return self.link(place_of_policy(policy))

    def section(self) -> Markup:
        """The excerpts that the page links to; the last section to be made."""
        shown = [
            _figure(number, words, span, self._excerpts[span])
            for span, (number, words) in self._linked.items()
        ]
        empty = tag("p", "No rule or policy is named.")
        return joined(shown or [empty])


def _figure(number: int, words: str, span: Span, excerpt: Excerpt) -> Markup:
    lines = [
        _line(excerpt.first + at, line, excerpt.marked) for at, line in enumerate(excerpt.lines)
    ]
    name = f"{words}, {where(span)}"
    caption = tag("figcaption", words, " ", tag("span", where(span), class_="file"))
    code = tag("code", Markup("\n".join(lines)))
    more = counted(excerpt.n_more, "more line")
    rest = tag("p", f"{more} not shown", class_="faint") if excerpt.n_more else Markup()
    block = tag("pre", code, tabindex=0, role="group", aria_label=f"Source of {name}")
    return tag("figure", caption, block, rest, id=f"rule-{number}")


def _line(number: int, line: str, marked: tuple[int, int]) -> Markup:
    first, last = marked
    is_marked = first <= number <= last
    digits = tag("span", f"{number:>5} ", class_="no")
    return tag("span", digits, line.expandtabs(4), class_="marked" if is_marked else "around")
