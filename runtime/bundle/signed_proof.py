# SPDX-License-Identifier: Apache-2.0
"""Signed proofs: `policyc prove --sign` writes them, `node load --require-proof` demands them.

A digest shows only that a bundle did not change, and any user can compute one. A signature shows that
the key's owner proved this bundle. The node trusts only the key.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from policyc.runtime.bundle.bundle import Bundle
from policyc.runtime.bundle.dsse import (
    open_envelope,
    read_public,
)
from policyc.runtime.errors import InputError

SIGNED_PROOF = "proof.dsse.json"
"""A file beside manifest.json, and not in it: it is made after the bundle."""
PAYLOAD_TYPE = "application/vnd.policyc.proof+json"
SCHEMA = "policyc.dev/signed-proof/v1"
PROVED = "proved"
_HOW = "sign it: policyc prove BUNDLE -f POLICIES --sign KEY"


def require_proof(bundle: Bundle, keys: Sequence[Path]) -> None:
    """Raise InputError unless the bundle has a proof of this bundle that one of these keys signed."""
    path = bundle.path / SIGNED_PROOF
    known = [read_public(each) for each in keys]
    if not path.is_file():
        raise InputError(
            f"{bundle.path}: has no {SIGNED_PROOF}, but a signed proof is required", _HOW
        )
    payload = open_envelope(path, PAYLOAD_TYPE, known)
    try:
        said = json.loads(payload)
        schema, result, manifest = said["schema"], said["result"], said["manifest"]
    except (ValueError, KeyError, TypeError, RecursionError) as failure:
        raise InputError(f"{path}: the signed file is not a proof: {failure!r}", _HOW) from failure
    if schema != SCHEMA:
        raise InputError(f"{path}: expected {SCHEMA!r}, found {schema!r}", _HOW)
    if result != PROVED:
        raise InputError(f"{path}: the result is {result!r}, not proved")
    if manifest != bundle.digest:
        raise InputError(f"{path}: the proof is for another bundle", _HOW)
