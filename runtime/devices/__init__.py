# SPDX-License-Identifier: Apache-2.0
"""Network devices of the node: uplinks, tunnel, reassembly, routes and their MTU."""
