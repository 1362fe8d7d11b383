# SPDX-License-Identifier: Apache-2.0
"""The fixes that `policyc check` offers: edits of the text, each set of them proved."""
