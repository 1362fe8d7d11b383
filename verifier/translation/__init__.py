# SPDX-License-Identifier: Apache-2.0
"""Translation validation: the loaded program and tables are the Decision IR (docs/decisions/0040)."""
