# SPDX-License-Identifier: Apache-2.0
"""`compile --all-nodes`: a bundle for each node, made in parallel, stored once."""
