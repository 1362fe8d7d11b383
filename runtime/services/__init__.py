# SPDX-License-Identifier: Apache-2.0
"""Services and EndpointSlices: validated, assigned, and written to the datapath's maps."""
