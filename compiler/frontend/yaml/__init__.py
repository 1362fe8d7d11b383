# SPDX-License-Identifier: Apache-2.0
"""Sources of input and YAML documents: the origin of bytes, and trees whose nodes have a position."""
