# SPDX-License-Identifier: Apache-2.0
"""Trees of YAML as JSON values: the input of `read_scenario`, which can be written again."""

from typing import Any

from policyc.compiler.frontend.yaml.scalars import OddNumber
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
    Scalar,
    Sequence,
)


def to_python(node: Node) -> Any:
    """The value of a node. A number that readers disagree about becomes its text."""
    match node:
        case Mapping():
            return {key: to_python(entry.value) for key, entry in node}
        case Sequence():
            return [to_python(item) for item in node.items]
        case Scalar():
            return node.value.text if isinstance(node.value, OddNumber) else node.value
