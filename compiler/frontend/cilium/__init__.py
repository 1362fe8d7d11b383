# SPDX-License-Identifier: Apache-2.0
"""cilium.io: CiliumNetworkPolicy, CiliumClusterwideNetworkPolicy and CIDR groups."""
