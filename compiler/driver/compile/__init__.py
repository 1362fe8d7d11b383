# SPDX-License-Identifier: Apache-2.0
"""`policyc compile`: policies to Decision IR, plan, object, bundle and proof."""
