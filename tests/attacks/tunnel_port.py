# SPDX-License-Identifier: Apache-2.0
"""SNAT by nftables in front of a node."""

from tests.kernel.support.two_nodes import TwoNodes

NFT = """\
table {family} nat {{
  chain post {{
    type nat hook postrouting priority 100
    oifname "up0" masquerade
  }}
}}
"""


def masqueraded_by_nft(lab: TwoNodes) -> None:
    """As many CNIs do it, for all that leaves node a."""
    for family in ("ip", "ip6"):
        lab.run("a", "nft", "-f", "-", text=NFT.format(family=family))
