# SPDX-License-Identifier: Apache-2.0
"""The bundles whose objects every supported kernel must take: how they are made, loaded and bounded."""
