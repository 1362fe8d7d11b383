# SPDX-License-Identifier: Apache-2.0
"""What is tried: random clusters and policies of every API, and changed ones of the user's own."""
