# SPDX-License-Identifier: Apache-2.0
"""The nodes that are attacked are those of the kernel tests."""

from tests.kernel.conftest import beds, lab, loads, node, objects, wire

__all__ = ["beds", "lab", "loads", "node", "objects", "wire"]
