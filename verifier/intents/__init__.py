# SPDX-License-Identifier: Apache-2.0
"""Intents proved, or refuted with a witness."""
