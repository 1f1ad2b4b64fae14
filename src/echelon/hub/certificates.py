"""The hub's own certificate authority, and who a client certificate says its bearer is.

Made once in the data folder, at first start. Private keys are written readable
by their owner only. Common name is the user, organisations are the groups, as
in Kubernetes.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from echelon.hub.call import User

CA_YEARS = 10
LEAF_DAYS = 365
RENEW_AFTER_DAYS = 240
"""When the server's and the administrator's certificates are made anew: two thirds of their life."""
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
SERVER_ADDRESSES = ("127.0.0.1", "::1", "10.96.0.1")
AUTHENTICATED = "system:authenticated"


@dataclass(slots=True, frozen=True)
class Pair:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Issues the certificates of one hub."""

    def __init__(self, pair: Pair, now: datetime) -> None:
        self.pair = pair
        self._now = now
        self._certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    @classmethod
    def make(cls, now: datetime) -> Authority:
        """Make a new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("echelon-ca", ())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=365 * CA_YEARS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(ca=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(Pair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key)), now)

    @classmethod
    def load(cls, folder: Path, now: datetime) -> Authority:
        """Return the authority kept in a folder, made at first use."""
        cert_file, key_file = folder / "ca.crt", folder / "ca.key"
        if cert_file.exists() and key_file.exists():
            return cls(Pair(cert_file.read_bytes(), key_file.read_bytes()), now)
        made = cls.make(now)
        write_private(key_file, made.pair.key)
        write_private(cert_file, made.pair.certificate)
        return made

    def client(self, user: str, groups: Iterable[str] = ()) -> Pair:
        """Issue a client certificate."""
        return self._issue(_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def server(self) -> Pair:
        """Issue the server's certificate."""
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVER_NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in SERVER_ADDRESSES]
        return self._issue(
            _name("echelon-hub", ()), ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names)
        )

    def _issue(
        self, subject: x509.Name, use: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - timedelta(hours=1))
            .not_valid_after(self._now + timedelta(days=LEAF_DAYS))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))

    def context(self, folder: Path) -> ssl.SSLContext:
        """Return the server's TLS settings; client certificates are welcome, not demanded."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.renew(context, folder, self._now)
        context.load_verify_locations(cadata=self.pair.certificate.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context

    def renew(self, context: ssl.SSLContext, folder: Path, now: datetime) -> None:
        """Issue as of this moment from now on, and give the server a fresh certificate for new connections."""
        self._now = now
        pair = self.server()
        write_private(folder / "server.crt", pair.certificate)
        write_private(folder / "server.key", pair.key)
        context.load_cert_chain(folder / "server.crt", folder / "server.key")


def user_of(peer: dict[str, Any]) -> User | None:
    """Return the user a verified client certificate names."""
    name = ""
    groups: list[str] = []
    for part in peer.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return User(name, (*groups, AUTHENTICATED)) if name else None


def write_private(path: Path, content: bytes) -> None:
    """Write a file only its owner can read, all of it or nothing."""
    partial = path.with_name(path.name + ".new")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    partial.replace(path)


def _name(common: str, groups: Iterable[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not ca,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )
