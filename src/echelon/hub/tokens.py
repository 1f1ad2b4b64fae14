"""Bearer tokens: those of service accounts, signed by the hub, and those its owner handed out.

A service account's token is a signed JWT bound to one logical cluster, one
account and its uid; it is worth nothing once the account is gone or another of
the same name took its place.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from echelon.hub.call import User
from echelon.hub.kinds import encode
from echelon.hub.route import HUB

if TYPE_CHECKING:
    from echelon.hub.app import Hub

Json = dict[str, Any]

ISSUER = "https://kubernetes.default.svc.cluster.local"
AUTHENTICATED = "system:authenticated"
MAX_TOKEN_BYTES = 16 * 1024
MAX_REMEMBERED = 10_000
"""Verified tokens kept: a signature costs a hundred times a look-up."""

INVALID = "invalid bearer token"


class BadToken(Exception):
    """The token is worth nothing here; the text says why."""


class Tokens:
    """Issues and verifies the tokens of one hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._key: ec.EllipticCurvePrivateKey | None = None
        self._file: Path | None = None
        self._verified: dict[tuple[str, str], Json] = {}
        self.known: dict[str, User] = {}
        """Tokens that simply stand for somebody, in every logical cluster."""

    def keep_in(self, folder: Path) -> None:
        """Keep the signing key in a folder, so that tokens outlive the process."""
        self._file = folder / "sa.key"

    def issuer(self, cluster: str) -> str:
        """Return who issues the tokens of a logical cluster."""
        return ISSUER if cluster == HUB else f"{ISSUER}/clusters/{cluster}"

    def issue(self, cluster: str, claims: Json) -> str:
        """Sign claims."""
        header = {"alg": "ES256", "kid": self._key_id(), "typ": "JWT"}
        signed = f"{_text(encode(header))}.{_text(encode({**claims, 'iss': self.issuer(cluster)}))}"
        r, s = decode_dss_signature(self._signing_key().sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_text(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def user_of(self, cluster: str, token: str) -> User | None:
        """Return whom a token stands for in a logical cluster."""
        known = self.known.get(token)
        if known is not None:
            return known
        try:
            return self.review(cluster, token, ())[0]
        except BadToken:
            return None

    def review(self, cluster: str, token: str, audiences: Iterable[str]) -> tuple[User, list[str]]:
        """Return whom a token stands for, and which of the audiences it is for."""
        claims = self._claims(cluster, token)
        now = self._hub.world.now().timestamp()
        if not claims["nbf"] <= now + 1 or now >= claims["exp"]:
            raise BadToken("service account token has expired")
        wanted = list(audiences) or [self.issuer(cluster)]
        fit = [one for one in wanted if one in claims["aud"]]
        if not fit:
            listed = " ".join(f'"{one}"' for one in claims["aud"])
            aimed = " ".join(f'"{one}"' for one in wanted)
            raise BadToken(f"token audiences [{listed}] is invalid for the target audiences [{aimed}]")
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        entry = self._hub.store.table(cluster, "/serviceaccounts").live.get(f"{namespace}/{account['name']}")
        if entry is None or entry.uid != account["uid"]:
            raise BadToken("service account token has been invalidated")
        for plural in ("pods", "secrets"):
            bound = private.get(plural[:-1])
            if bound is not None:
                there = self._hub.store.table(cluster, f"/{plural}").live.get(f"{namespace}/{bound['name']}")
                if there is None or there.uid != bound["uid"]:
                    raise BadToken("service account token has been invalidated")
        return _account_user(claims), fit

    def _claims(self, cluster: str, token: str) -> Json:
        known = self._verified.get((cluster, token))
        if known is not None:
            return known
        if len(token) > MAX_TOKEN_BYTES or token.count(".") != 2:
            raise BadToken(INVALID)
        signed, _, signature = token.rpartition(".")
        try:
            raw = _bytes(signature)
            if len(raw) != 64:
                raise BadToken(INVALID)
            r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
            public = self._signing_key().public_key()
            public.verify(encode_dss_signature(r, s), signed.encode(), ec.ECDSA(hashes.SHA256()))
            claims: Json = msgspec.json.decode(_bytes(signed.partition(".")[2]))
        except (InvalidSignature, ValueError, msgspec.MsgspecError):
            raise BadToken(INVALID) from None
        if claims.get("iss") != self.issuer(cluster):
            raise BadToken(INVALID)
        if len(self._verified) >= MAX_REMEMBERED:
            self._verified.clear()
        self._verified[cluster, token] = claims
        return claims

    def _signing_key(self) -> ec.EllipticCurvePrivateKey:
        if self._key is None:
            self._key = _load(self._file)
        return self._key

    def _key_id(self) -> str:
        public = (
            self._signing_key()
            .public_key()
            .public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        return _text(hashlib.sha256(public).digest())


def account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups every service account of a namespace is in."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)


def _account_user(claims: Json) -> User:
    private = claims["kubernetes.io"]
    extra = {"authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",)}
    if "pod" in private:
        extra["authentication.kubernetes.io/pod-name"] = (private["pod"]["name"],)
        extra["authentication.kubernetes.io/pod-uid"] = (private["pod"]["uid"],)
    return User(claims["sub"], account_groups(private["namespace"]), private["serviceaccount"]["uid"], extra)


def _load(file: Path | None) -> ec.EllipticCurvePrivateKey:
    if file is not None and file.exists():
        loaded = serialization.load_pem_private_key(file.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        return loaded
    key = ec.generate_private_key(ec.SECP256R1())
    if file is not None:
        from echelon.hub.certificates import write_private  # noqa: PLC0415 - only where a folder is kept

        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_private(file, pem)
    return key


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
