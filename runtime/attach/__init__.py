# SPDX-License-Identifier: Apache-2.0
"""Hooks at devices and cgroups: tcx, clsact, XDP, sockets; what earlier loads left there."""
