# SPDX-License-Identifier: Apache-2.0
"""Common parts of Kubernetes objects: kinds, metadata, names, selectors, addresses, strict decoding."""
