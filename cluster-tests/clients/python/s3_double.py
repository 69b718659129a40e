"""Just enough of S3 for a client that puts, gets and deletes objects by path; kept in memory."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b""):
        self.send_response(status)
        # An answer without content has no length either.
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.objects[self.path] = body
        self.answer(200)

    def do_GET(self):
        body = self.server.objects.get(self.path)
        if body is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self.answer(200, body)

    def do_DELETE(self):
        self.server.objects.pop(self.path, None)
        self.answer(204)

    def log_message(self, *_):
        pass


class S3Double:
    """A store on a free port of the loopback; OBJECTS maps `/bucket/key` to bytes."""

    def __init__(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.objects = self.objects = {}
        self.endpoint = "http://127.0.0.1:%d" % self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
