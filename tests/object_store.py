"""A real S3 server on the loopback, and a wire to it that can be cut."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
import urllib.request

BUCKET = "studies"
#: What a client needs; the server believes anything.
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}


@contextlib.contextmanager
def serve():
    """Run moto's server with an empty bucket; give its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 60
        while not answers(port):
            assert server.poll() is None, "the server has ended"
            assert time.monotonic() < until
            time.sleep(0.1)
        request = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310
        yield port
    finally:
        server.terminate()
        server.wait()


def answers(port):
    with contextlib.suppress(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5).close()
        return True
    return False


def address(port, prefix="study", bucket=BUCKET):
    return f"s3://{bucket}/{prefix}?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"


class Wire:
    """Forwards a port of its own to another one, while it is not cut."""

    def __init__(self, port):
        self._to = port
        self._pairs = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        self._is_cut = True
        while self._pairs:
            for end in self._pairs.pop():
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def mend(self):
        self._is_cut = False

    def close(self):
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._is_cut:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._to))
                self._pairs.append((near, far))
                threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near, far):
        back = threading.Thread(target=self._pump, args=(far, near), daemon=True)
        back.start()
        self._pump(near, far)
        back.join()
        near.close()
        far.close()

    @staticmethod
    def _pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
