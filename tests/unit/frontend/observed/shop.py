# SPDX-License-Identifier: Apache-2.0
"""The shop's cluster, and the reading of lines of observed flows in it."""

from functools import cache
from pathlib import Path

from policyc.compiler.frontend import PathSource, ReadOptions, read_cluster
from policyc.compiler.frontend.observed.placing import Placing
from policyc.compiler.frontend.observed.reading import Observed, ObservedFile, read_observed

ROOT = Path(__file__).parents[4]
OBSERVED = ROOT / "examples" / "observed"


@cache
def placing() -> Placing:
    """The ends of the shop."""
    shop = ROOT / "examples" / "online-shop" / "cluster"
    return Placing(read_cluster([PathSource(str(shop))], ReadOptions()))


def read(*lines: str, form: str | None = None, skip_unknown: bool = False) -> Observed:
    """The flows of these lines."""
    return read_observed(ObservedFile(lines, "flows", form, skip_unknown), placing())


def read_example(name: str) -> Observed:
    """The flows of a file of examples/observed."""
    return read(*(OBSERVED / name).read_text().splitlines())


def flows_in_words(found: Observed) -> dict[str, tuple[int, int]]:
    """Each different flow, with the numbers of observations and of denied ones."""
    distinct = found.columns.distinct()
    return {
        str(distinct.flows.flow(at)): (int(distinct.counts[at]), int(distinct.denied[at]))
        for at in range(len(distinct.flows))
    }
