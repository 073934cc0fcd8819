"""`https://dataflow.googleapis.com` on the loopback interface, for clients that take no other.

They reach it through a proxy, which shows a certificate of its own and stands for no other host.
"""

import contextlib
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.gcs import HOST

SERVICE = "dataflow.googleapis.com"


@contextmanager
def serve_google_api(directory: Path, upstream_port: int) -> Iterator[dict[str, str]]:
    """Runs the proxy in front of a server.

    Args:
        directory: Takes key and certificate.
        upstream_port: Of the server on this machine that answers in the service's place.

    Yields:
        The environment of the clients.
    """
    key, certificate = make_certificate(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            words = self.rfile.readline().split()
            while self.rfile.readline().strip():
                pass
            if words[:2] != [b"CONNECT", f"{SERVICE}:443".encode()]:
                self.wfile.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            with (
                contextlib.suppress(OSError),
                context.wrap_socket(self.connection, server_side=True) as client,
                socket.create_connection((HOST, upstream_port)) as server,
            ):
                backwards = threading.Thread(target=copy, args=(server, client))
                backwards.start()
                copy(client, server)
                backwards.join()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server((HOST, 0), Handler) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        yield {
            "HTTPS_PROXY": f"http://{HOST}:{proxy.server_address[1]}",
            "HTTPLIB2_CA_CERTS": str(certificate),
        }
        proxy.shutdown()
        thread.join()


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """A key, and a certificate for the service that vouches for itself."""
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    openssl = shutil.which("openssl")
    assert openssl, "openssl is not installed"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", f"/CN={SERVICE}", "-addext", f"subjectAltName=DNS:{SERVICE}"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return key, certificate


def copy(source: socket.socket, target: socket.socket) -> None:
    """Passes on what one side sends, until it has said everything."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
