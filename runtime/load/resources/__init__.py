# SPDX-License-Identifier: Apache-2.0
"""The features of a load, each with its steps: check, prepare, write, commit, sweep, remove."""
