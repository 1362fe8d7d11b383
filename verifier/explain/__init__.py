# SPDX-License-Identifier: Apache-2.0
"""Why a flow has its verdict, and which policy changes would give it another."""
