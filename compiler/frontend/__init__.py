# SPDX-License-Identifier: Apache-2.0
"""YAML and JSON -> typed objects -> Policy IR. The public names; the rest is internal.

A name is imported on first use, so importing one module of the package loads only that module.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policyc.compiler.frontend.cluster.universe import Cluster
    from policyc.compiler.frontend.read import (
        PolicyInput,
        read_cluster,
        read_policies,
        read_scenario,
    )
    from policyc.compiler.frontend.read_options import ReadOptions
    from policyc.compiler.frontend.yaml.sources import (
        InputFile,
        ObjectsSource,
        PathSource,
        Source,
        StreamSource,
        sources_of,
    )
else:
    _HOMES: dict[str, str] = {
        "Cluster": "cluster.universe",
        "ReadOptions": "read_options",
        **dict.fromkeys(("PolicyInput", "read_cluster", "read_policies", "read_scenario"), "read"),
        **dict.fromkeys(("InputFile", "ObjectsSource", "PathSource", "Source"), "yaml.sources"),
        **dict.fromkeys(("StreamSource", "sources_of"), "yaml.sources"),
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


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
