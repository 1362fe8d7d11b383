# SPDX-License-Identifier: Apache-2.0
"""What a change of policies does to every connection that could exist."""
