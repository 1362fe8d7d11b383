# SPDX-License-Identifier: Apache-2.0
"""What hooks see at ipvlan and macvlan slaves and at moved devices: packets sent, and counted.

`facts.sh SERIES` prints the table from a guest. `wire` is the other end of the veth `up0`, in the
namespace `net`. The pods `a` and `b` have slaves of `up0`, and the node has `nv0`.
"""
