# SPDX-License-Identifier: Apache-2.0
"""Sources of input and YAML documents: where bytes come from, and trees whose nodes know their place."""
