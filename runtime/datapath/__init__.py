# SPDX-License-Identifier: Apache-2.0
"""The datapath's C sources, as package data."""
