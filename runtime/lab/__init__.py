# SPDX-License-Identifier: Apache-2.0
"""A node, its pods and external clients as network namespaces, with real traffic.

    children    work done in a forked child, inside another network namespace
    namespaces  named namespaces, a lab's lock and bpffs, and what dead labs left behind
    topology    the lab: what is in it, built and removed as a context manager
    wiring      links, addresses, routes and neighbours, by netlink
    probes      the probes and their possible outcomes
    traffic     sends probes and observes the outcomes; icmp is the part that needs raw sockets
    matrix      compares expected and observed outcomes
    run         all of it in order

The lab does not know policies: its caller says what to expect.
"""
