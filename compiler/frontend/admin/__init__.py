# SPDX-License-Identifier: Apache-2.0
"""policy.networking.k8s.io: AdminNetworkPolicy, BaselineAdminNetworkPolicy, ClusterNetworkPolicy."""
