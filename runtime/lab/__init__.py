# SPDX-License-Identifier: Apache-2.0
"""A node, its pods and external clients as network namespaces, with real traffic.

    children    work done in a forked child, inside another network namespace
    namespaces  named namespaces, a lab's lock and bpffs, and what dead labs left behind
    topology    the lab: what is in it, built and removed as a context manager
    wiring      links, addresses, routes and neighbours, by netlink
    probes      what is sent, and what may come of it
    traffic     sends probes and watches what happens; icmp is the part that needs raw sockets
    matrix      what was expected against what was seen
    run         all of it in order

The lab knows nothing of policy: it is told what to expect.
"""
