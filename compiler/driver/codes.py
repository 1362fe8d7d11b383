# SPDX-License-Identifier: Apache-2.0
"""The findings of the driver: about outputs and options, not about the text of policies."""

from policyc.ir.diagnostics import Code, Severity

NOT_A_BUNDLE = Code(
    "PC0901", Severity.ERROR, "{target} exists and is not a bundle; nothing was written"
)
INEXPRESSIBLE = Code("PC1701", Severity.ERROR, "{name}: {target} cannot express it: {why}")
OPAQUE_CONVERTED = Code(
    "PC1702", Severity.ERROR, "{name} uses {asks}, which policyc cannot convert"
)
CANNOT_WRITE = Code("PC0902", Severity.ERROR, "{target} cannot be written: {reason}")
BUNDLE_BROKEN = Code("PC0905", Severity.ERROR, "the bundle {name} cannot be read: {problem}")
STDIN_TWICE = Code("PC0906", Severity.ERROR, "standard input (-) can be read only once")
CLUSTER_TWICE = Code("PC0907", Severity.ERROR, "--cluster is for both sides: it excludes {option}")
CLUSTER_MISSING = Code(
    "PC0908", Severity.ERROR, "{given} needs {missing}: both sides need a cluster"
)
BAD_EXECUTOR = Code("PC0909", Severity.ERROR, "{text}: expected dask://HOST:PORT")
BAD_CERTIFICATE = Code("PC0910", Severity.ERROR, "not a certificate: {reason}")
UNKNOWN_PLACES = Code("PC0911", Severity.ERROR, "{why}")
NO_SUCH_FOCUS = Code(
    "PC0912", Severity.ERROR, "--focus {text}: the cluster has nothing of this name"
)
CACHE_UNUSABLE = Code("PC0913", Severity.ERROR, "the build cache {folder} cannot be used: {reason}")
CACHE_NOT_WRITTEN = Code(
    "PC0914", Severity.WARNING, "the build cache {folder} could not be written: {reason}"
)
NO_SUCH_NODE = Code("PC0915", Severity.ERROR, "the cluster has no node {name}")
NOT_NODE_BUNDLES = Code(
    "PC0916",
    Severity.ERROR,
    "{target} exists and is not a directory of node bundles; nothing was written",
)
NOT_PROVED = Code(
    "PC0920",
    Severity.ERROR,
    "the bundle {name} is {status}, not proved; nothing was done",
)
NO_NODES = Code("PC0917", Severity.ERROR, "the cluster has no nodes")
BAD_REGRESSION = Code("PC0918", Severity.ERROR, "not a case of the fuzzer: {problem}")
NO_FLOWS_TO_FUZZ = Code("PC0919", Severity.ERROR, "no flow can be tried: {problem}")
NOT_A_SNAPSHOT = Code(
    "PC0921", Severity.ERROR, "{target} exists and is not a snapshot; nothing was written"
)
