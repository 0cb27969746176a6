# SPDX-License-Identifier: Apache-2.0
"""An object store: object_store.py FOLDER LATENCY_MS. Serves each request after so long, any number at once; prints its address."""

import sys
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=sys.argv[1])

    def do_GET(self):
        time.sleep(float(sys.argv[2]) / 1e3)
        super().do_GET()

    def log_message(self, *arguments):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 64


server = Server(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
