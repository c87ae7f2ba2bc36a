"""HTTPS: the same guards, and a handshake that does not come is one more client that keeps nobody out."""

from __future__ import annotations

import datetime
import http.client
import ipaddress
import ssl
from contextlib import ExitStack

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from fastapi import APIRouter

from rlstudio.server.http.callers import Reader
from rlstudio.server.http.wire.running import read_certificate
from support.deadlines import PATIENCE
from support.http_app import made
from support.http_server import SHORT, TOKEN, one_token, received, running


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Of 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(built.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *private))
    return read_certificate(folder / "cert.pem", folder / "key.pem")


def test_https_is_guarded_from_the_first_packet_on(certificate):
    router = APIRouter()

    @router.get("/me")
    def me(caller: Reader):
        return caller.name

    def app(**options):
        return made(router, access=one_token(), **options)

    with running(app, limits=SHORT, certificate=certificate) as place, ExitStack() as held:
        silent = [held.enter_context(place.connect()) for _ in range(60)]
        trusting = ssl.create_default_context(cafile=str(certificate.file))
        for _ in range(3):
            connection = http.client.HTTPSConnection(*place.address, timeout=PATIENCE, context=trusting)
            connection.request("GET", "/me", headers={"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b'"client"')
            connection.close()
        for connection in silent:
            assert received(connection) == b""
        assert b"200" not in place.exchange(place.head("GET", "/me"))  # not in plain text
