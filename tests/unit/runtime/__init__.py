# SPDX-License-Identifier: Apache-2.0
"""The node runtime, as far as it needs no kernel."""
