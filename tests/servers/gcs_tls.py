"""The way to the server of `gcs` for TensorFlow, which knows Google's addresses only.

A proxy on the loopback interface takes its connections to `*.googleapis.com`, answers them with a
certificate of an authority made for the test, and asks the server. Nothing leaves the machine.
"""

import datetime
import http.client
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.servers.gcs import HOST, GcsServer

_HOSTS = ("www.googleapis.com", "storage.googleapis.com", "oauth2.googleapis.com")
_TOKEN = {"access_token": "loopback-token", "expires_in": 3600, "token_type": "Bearer"}
_PER_CONNECTION = {"connection", "content-length", "transfer-encoding"}


@contextmanager
def serve_tls(directory: Path, gcs: GcsServer) -> Iterator[dict[str, str]]:
    """Runs the proxy. `directory` takes its certificates.

    Yields:
        what a process needs in its environment to use it, and to reach nothing else.
    """
    authority, chain = directory / "authority.pem", directory / "chain.pem"
    _write_certificates(authority, chain)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)

    class Handler(_Handler):
        tls = context
        upstream_port = gcs.upstream_port

    with http.server.ThreadingHTTPServer((HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield {
                **gcs.environment,
                "HTTPS_PROXY": f"http://{HOST}:{server.server_port}",
                "CURL_CA_BUNDLE": str(authority),
                "GCS_RETRY_CONFIG_MAX_RETRIES": "1",
            }
        finally:
            server.shutdown()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    """A tunnel that ends here."""

    protocol_version = "HTTP/1.1"
    tls: ssl.SSLContext
    upstream_port: int

    def do_CONNECT(self) -> None:
        if self.path.rpartition(":")[0] not in _HOSTS:
            self.send_error(403)
            return
        self.send_response(200)
        self.end_headers()
        self.connection = self.tls.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb")
        self.close_connection = False

    def do_GET(self) -> None:
        with closing(http.client.HTTPConnection(HOST, self.upstream_port)) as upstream:
            upstream.request("GET", self.path, headers=dict(self.headers))
            answer = upstream.getresponse()
            self._answer(answer.status, answer.getheaders(), answer.read())

    def do_POST(self) -> None:
        """The only thing a reader posts: the request for a token."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(200, [("Content-Type", "application/json")], json.dumps(_TOKEN).encode())

    def finish(self) -> None:
        super().finish()
        self.connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in _PER_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def _write_certificates(authority: Path, chain: Path) -> None:
    """An authority, and a certificate of it for Google's names with its key."""
    own_key = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of the tests")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _HOSTS[0])])
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in _HOSTS])

    def certificate(name: x509.Name, of: Any, extension: Any, *, critical: bool) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(of.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(extension, critical)
            .sign(own_key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )

    is_authority = x509.BasicConstraints(ca=True, path_length=0)
    authority.write_bytes(certificate(issuer, own_key, is_authority, critical=True))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain.write_bytes(certificate(subject, key, names, critical=False) + private)
