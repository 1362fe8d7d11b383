# SPDX-License-Identifier: Apache-2.0
"""Proofs that somebody signed: `policyc prove --sign` writes them, `node load --require-proof` asks.

A digest says that a bundle was not changed since, and anybody can make one. A signature says that who
has the key proved this very bundle; the node believes the key and nothing else.
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
"""Beside manifest.json, and not in it: it is made when the bundle is there."""
PAYLOAD_TYPE = "application/vnd.policyc.proof+json"
SCHEMA = "policyc.dev/signed-proof/v1"
PROVED = "proved"
_HOW = "sign it: policyc prove BUNDLE -f POLICIES --sign KEY"


def require_proof(bundle: Bundle, keys: Sequence[Path]) -> None:
    """InputError unless the proof beside a bundle is of this bundle, and signed by one of these keys."""
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
