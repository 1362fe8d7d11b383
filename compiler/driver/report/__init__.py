# SPDX-License-Identifier: Apache-2.0
"""Report: the answers of diff, list, check and verify about one change or one set, collected."""
