# SPDX-License-Identifier: Apache-2.0
"""The resources of a load, each with its steps (`resource.py`)."""
