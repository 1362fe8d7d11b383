# SPDX-License-Identifier: Apache-2.0
"""One folder per target of the Decision IR."""
