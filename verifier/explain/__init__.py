# SPDX-License-Identifier: Apache-2.0
"""Why a flow has its verdict, and what would have to change for another."""
