# SPDX-License-Identifier: Apache-2.0
"""The maps that hooks and loader share: one class per map.

Each class has the name of its map, opens it by its pin, and packs its keys and values. The layouts come
from the map's own BTF (runtime/kernel/btf.py), and capacities from the kernel. `runtime/datapath`
declares both.
"""
