# SPDX-License-Identifier: Apache-2.0
"""What stands in `-f` and in `--cluster`: tiers, network sets and host endpoints, which must agree."""

from collections.abc import Iterable, Sequence

from policyc.compiler.frontend import codes_calico as codes
from policyc.compiler.frontend.calico_hosts import HostEndpoint
from policyc.compiler.frontend.calico_networks import LabelledNets
from policyc.compiler.frontend.tiers import CalicoTier
from policyc.ir.diagnostics import Report
from policyc.ir.spans import Span

CLUSTER = Span("--cluster", 0, 0)


def given_once(given: Sequence[object], others: Iterable[object], report: Report) -> list[object]:
    """Those of `others` that are not among `given`; the same name for something else is an error."""
    names = {_name(item) for item in given} - {None}
    found = []
    for item in others:
        if item in given:
            continue
        name = _name(item)
        if name in names:
            finding = codes.DIFFERENT_IN_CLUSTER.at(CLUSTER, "metadata.name", name=name)
            report.add(finding.help("keep one of the two, or take the snapshot again"))
        else:
            found.append(item)
    return found


def _name(item: object) -> str | None:
    """What messages call it; None for what need not be unique."""
    match item:
        case CalicoTier(name=name):
            return f"the tier {name}"
        case LabelledNets(title=title):
            return f"the addresses of {title}" if title.startswith("Host") else title
        case HostEndpoint(name=name):
            return f"HostEndpoint {name}"
        case _:
            return None
