# SPDX-License-Identifier: Apache-2.0
"""Inputs of the fuzzer: random clusters and policies of every API, and mutations of the user's own."""
