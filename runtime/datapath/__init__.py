# SPDX-License-Identifier: Apache-2.0
"""The C of the datapath, as package data."""
