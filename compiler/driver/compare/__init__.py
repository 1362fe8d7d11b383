# SPDX-License-Identifier: Apache-2.0
"""Commands that compare policy sets or list what one allows: diff, equiv, convert, list."""
