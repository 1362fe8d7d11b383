# SPDX-License-Identifier: Apache-2.0
"""Flows as users write them: on the command line, in CSV, JSON lines and test cases."""
