# SPDX-License-Identifier: Apache-2.0
"""The nodes that are attacked are those of the kernel tests."""

from tests.kernel.conftest import lab, node, wire

__all__ = ["lab", "node", "wire"]
