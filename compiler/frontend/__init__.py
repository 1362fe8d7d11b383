# SPDX-License-Identifier: Apache-2.0
"""YAML and JSON -> typed objects -> Policy IR. The public names; the rest is internal."""

from policyc.compiler.frontend.cluster import Cluster
from policyc.compiler.frontend.read import (
    PolicyInput,
    ReadOptions,
    read_cluster,
    read_policies,
    read_scenario,
)
from policyc.compiler.frontend.sources import (
    InputFile,
    ObjectsSource,
    PathSource,
    Source,
    StreamSource,
    sources_of,
)

__all__ = [
    "Cluster",
    "InputFile",
    "ObjectsSource",
    "PathSource",
    "PolicyInput",
    "ReadOptions",
    "Source",
    "StreamSource",
    "read_cluster",
    "read_policies",
    "read_scenario",
    "sources_of",
]
