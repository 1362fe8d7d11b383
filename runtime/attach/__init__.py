# SPDX-License-Identifier: Apache-2.0
"""Hooks at devices and cgroups: tcx, clsact, XDP and sockets, and the hooks that earlier loads left."""
