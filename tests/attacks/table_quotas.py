# SPDX-License-Identifier: Apache-2.0
"""What the datapath refused because a quota was full."""

from tests.kernel.support.node_under_test import NodeUnderTest


def full_quotas(node: NodeUnderTest) -> dict[tuple[str, str], int]:
    found = node.status()
    assert found
    return {(each.endpoint, each.what): each.times for each in found.refused}
