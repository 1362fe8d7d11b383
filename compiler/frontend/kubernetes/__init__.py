# SPDX-License-Identifier: Apache-2.0
"""What all Kubernetes objects share: kinds, metadata, names, selectors, addresses, strict decoding."""
