"""The toy server as a provider of batches: files, and batches whose end the test decides."""

import json
import re

from http_server import Reply
from toy_server import ToyServer


class BatchProvider(ToyServer):
    """`files`: id to bytes; `batches`: id to the batch object."""

    def __init__(self, quirks):
        super().__init__(quirks)
        self.files, self.batches = {}, {}
        self.breaks_after_creation = False

    def _answer_http(self, method, path, headers, body):
        found = re.fullmatch(r"/v1/(files|batches)(?:/([^/]+)/content)?(\?.*)?", path)
        if found is None:
            return super()._answer_http(method, path, headers, body)
        kind, name, _ = found.groups()
        if method == "POST" and kind == "files":
            assert b'name="purpose"\r\n\r\nbatch' in body
            name = f"file-{len(self.files)}"
            self.files[name] = body[body.index(b'{"custom_id"') :].rpartition(b"\r\n--")[0]
            return Reply({"id": name, "object": "file"})
        if method == "POST":
            return self._create(json.loads(body))
        if kind == "files":
            return Reply(self.files[name], headers={"content-type": "application/octet-stream"})
        return Reply({"object": "list", "data": list(self.batches.values()), "has_more": False})

    def _create(self, sent):
        assert (sent["endpoint"], sent["completion_window"]) == ("/v1/chat/completions", "24h")
        name = f"batch_{len(self.batches)}"
        self.batches[name] = {**sent, "id": name, "object": "batch", "status": "validating"}
        if self.breaks_after_creation:
            return Reply({"error": {"message": "lost"}}, 400)
        return Reply(self.batches[name])

    def end(self, name, *, status="completed", expired=0):
        """End a batch; so many of its requests have expired."""
        sent = self.files[self.batches[name]["input_file_id"]].split(b"\n")
        lines, errors = [], []
        for place, request in enumerate(map(json.loads, sent)):
            line = {"id": f"l{place}", "custom_id": request["custom_id"]}
            line |= {"response": None, "error": None}
            if place < expired:
                errors.append(line | {"error": {"code": "batch_expired", "message": "too late"}})
            else:
                body = self._chat(request["body"])
                response = {"status_code": 200, "request_id": "r", "body": body}
                lines.append(line | {"response": response})
        self.batches[name]["status"] = status
        for key, given in (("output_file_id", lines), ("error_file_id", errors)):
            if given:
                self.batches[name][key] = file = f"file-{len(self.files)}"
                self.files[file] = "\n".join(map(json.dumps, given)).encode()
