# SPDX-License-Identifier: Apache-2.0
"""What is checked across policies, APIs and the cluster, once each object was read."""
