# SPDX-License-Identifier: Apache-2.0
"""The endpoints file, pods' devices, and the maps by which hooks find pods."""
