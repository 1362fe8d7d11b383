# SPDX-License-Identifier: Apache-2.0
"""The build cache, and the ledger of questions that earlier runs proved."""
