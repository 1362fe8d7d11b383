# SPDX-License-Identifier: Apache-2.0
"""Translation validation: what is loaded is the Decision IR (docs/decisions/0040)."""
