# SPDX-License-Identifier: Apache-2.0
"""Services and EndpointSlices: validated, shared out, and written to the maps of the datapath."""
