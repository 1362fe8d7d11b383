# SPDX-License-Identifier: Apache-2.0
"""The bundle format: manifests, JSON values and signatures.

Digests cover everything that is believed.
"""
