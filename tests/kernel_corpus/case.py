# SPDX-License-Identifier: Apache-2.0
"""One case of the corpus: policies and, where it is known, the cluster, as Kubernetes objects."""

from dataclasses import dataclass
from typing import Any

from policyc.ir.plan import DiagramLayout

Objects = tuple[dict[str, Any], ...]
BUNDLES = {"": "bundle-c", " (llvm)": "bundle-llvm"}
"""What a bundle's name has after the case's -> the folder of the bundle in the case's: one a backend."""


@dataclass(frozen=True)
class CorpusCase:
    """`cluster` empty: without a cluster snapshot. `name` is that of a folder with its bundles.

    `counters` is what is counted for each rule (none, packets, bytes), `node` the node that the bundles
    are for, "" for every node. `at_sockets` adds the programs at sockets. `diagrams` asks for a layout
    of long diagrams that would not be chosen.
    """

    name: str
    what: str
    policies: Objects
    cluster: Objects = ()
    counters: str = "bytes"
    node: str = ""
    at_sockets: bool = False
    diagrams: DiagramLayout | None = None
