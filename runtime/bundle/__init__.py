# SPDX-License-Identifier: Apache-2.0
"""The bundle format: manifests, JSON values, signatures; nothing is believed that no digest covers."""
