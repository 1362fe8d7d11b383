# SPDX-License-Identifier: Apache-2.0
"""The inputs and options of one compiler run, known before anything is read."""

import json
from typing import Any

from policyc.compiler.driver.compile.target import Target
from policyc.compiler.frontend.read_options import ReadOptions
from policyc.compiler.frontend.yaml.sources import Source
from policyc.ir.fast_dataclass import dataclass


@dataclass(frozen=True)
class Inputs:
    """The inputs of one run. `cluster` empty: policies alone."""

    policies: tuple[Source, ...]
    cluster: tuple[Source, ...]
    options: ReadOptions

    @property
    def universe(self) -> str:
        """The universe of endpoints: those of the `cluster`, or `symbolic` ones."""
        return "cluster" if self.cluster else "symbolic"


def options_json(inputs: Inputs) -> dict[str, Any]:
    """The options as the manifest names them."""
    return {
        "kube_version": inputs.options.kube_version,
        "namespace": inputs.options.default_namespace,
        "allow_unknown_kinds": sorted(inputs.options.allow_unknown_kinds),
        "channel": inputs.options.channel.value,
        "unsupported": inputs.options.unsupported.value,
        "universe": inputs.universe,
    }


def context_of(inputs: Inputs, target: Target | None = None) -> str:
    """The common context of runs with the same questions, or the same results of them for a target."""
    sources = [[str(source) for source in some] for some in (inputs.policies, inputs.cluster)]
    profile = inputs.options.profile.value if inputs.options.profile else None
    made = (
        [target.backend.value, target.counters.value, target.at_sockets, profile] if target else []
    )
    selected = inputs.options.selection
    chosen = [[selected.root, *selected.exclude]] if selected else []
    return json.dumps([sources, options_json(inputs), *made, *chosen], sort_keys=True)
