# SPDX-License-Identifier: Apache-2.0
"""From YAML to a bundle: front end, driver and command line."""
