# SPDX-License-Identifier: Apache-2.0
"""Signed envelopes: DSSE v1 (github.com/secure-systems-lab/dsse) with Ed25519 (RFC 8032).

The signature covers the type and the payload as bytes, so no canonical form of JSON is needed. Keys are
PEM, as `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` write them. A key's name is the
SHA-256 of its public part in DER. The name only helps to find a key, and is not trusted.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from policyc.runtime.bundle.json_value import read_json
from policyc.runtime.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


def read_private(path: Path) -> "Ed25519PrivateKey":
    """Read the signing key; InputError unless the file is an unencrypted Ed25519 key in PEM."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = _bytes_of(path)
    hint = "openssl genpkey -algorithm ed25519 -out KEY"
    try:
        key = load_pem_private_key(data, None)
    except Exception as failure:  # the library raises many kinds of exception
        raise InputError(
            f"{path}: is no private key in PEM: {_first_line(failure)}", hint
        ) from failure
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path}: is no Ed25519 key", hint)
    return key


def read_public(path: Path) -> "Ed25519PublicKey":
    """Read a key that verifies signatures; InputError unless the file is one in PEM."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    data = _bytes_of(path)
    hint = "openssl pkey -in KEY -pubout -out PUBLIC"
    try:
        key = load_pem_public_key(data)
    except Exception as failure:  # the library raises many kinds of exception
        raise InputError(
            f"{path}: is no public key in PEM: {_first_line(failure)}", hint
        ) from failure
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path}: is no Ed25519 key", hint)
    return key


def key_name(key: "Ed25519PublicKey") -> str:
    """The SHA-256 of the key in DER."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    data = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(data).hexdigest()


def seal(payload_type: str, payload: bytes, key: "Ed25519PrivateKey") -> str:
    """Give the text of an envelope with one signature."""
    signature = key.sign(_to_be_signed(payload_type, payload))
    envelope = {
        "payloadType": payload_type,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [
            {"keyid": key_name(key.public_key()), "sig": base64.b64encode(signature).decode()}
        ],
    }
    return json.dumps(envelope, indent=1) + "\n"


def open_envelope(path: Path, payload_type: str, keys: Iterable["Ed25519PublicKey"]) -> bytes:
    """The payload of an envelope that one of the keys signed; InputError if none did."""
    from cryptography.exceptions import InvalidSignature

    value = read_json(path)
    members = value.members()
    for name in ("payloadType", "payload", "signatures"):
        if name not in members:
            value.fail(f"the field `{name}` is missing")
    if members["payloadType"].text() != payload_type:
        members["payloadType"].fail(f"expected {payload_type!r}")
    payload = _decoded(members["payload"].text())
    signed = _to_be_signed(payload_type, payload)
    known = tuple(keys)
    for each in members["signatures"].items():
        signature = each.members().get("sig")
        if signature is None:
            each.fail("the field `sig` is missing")
        data = _decoded(signature.text())
        for key in known:
            try:
                key.verify(data, signed)
            except InvalidSignature:
                continue
            return payload
    raise InputError(
        f"{path}: no given key matches a signature",
        f"keys given: {', '.join(map(key_name, known))}",
    )


def _to_be_signed(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding of DSSE v1."""
    kind = payload_type.encode()
    return b" ".join(
        (b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload)
    )


def _decoded(text: str) -> bytes:
    """The decoded base64, or nothing if it is malformed: then no signature matches."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as failure:
        raise InputError(f"{path}: cannot be read: {failure.strerror}") from failure


def _first_line(failure: Exception) -> str:
    return str(failure).partition("\n")[0].partition(". ")[0] or type(failure).__name__
