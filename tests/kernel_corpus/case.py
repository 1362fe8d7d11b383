# SPDX-License-Identifier: Apache-2.0
"""One case of the corpus: policies and, where it is known, the cluster, as Kubernetes objects."""

from dataclasses import dataclass
from typing import Any

Objects = tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class CorpusCase:
    """`cluster` empty: for whatever cluster. `name` is the bundle's folder and its row in the table."""

    name: str
    what: str
    policies: Objects
    cluster: Objects = ()
