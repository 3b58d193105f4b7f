"""The toy server with a provider's batch interface: files, and batches whose end the test decides."""

import json
import re

from http_server import Reply
from toy_server import ToyServer


class BatchServer(ToyServer):
    """`files`: id to bytes; `batches`: id to the batch object. `finish` ends a batch, in whatever way is asked for."""

    def __init__(self, quirks):
        super().__init__(quirks)
        self.files, self.batches = {}, {}
        self.faults = {}  # (method, first part of the path) -> Reply, given after the request was carried out
        self.page = 100

    def _answer_http(self, method, path, headers, body):
        path, _, query = path.partition("?")
        found = re.fullmatch(r"/v1/(files|batches)(?:/([^/]+))?(/content)?", path)
        if found is None:
            return super()._answer_http(method, path, headers, body)
        self.asked.append((path, method))
        kind, name, _ = found.groups()
        reply = self._batch_http(method, kind, name, body, dict(re.findall(r"(\w+)=([^&]*)", query)))
        return self.faults.pop((method, kind), reply)

    def _batch_http(self, method, kind, name, body, query):
        if method == "POST" and kind == "files":
            content = body.split(b"\r\n\r\n")
            assert b'name="purpose"' in body
            name = f"file-{len(self.files)}"
            self.files[name] = next(part for part in content if part.startswith(b"{")).rpartition(b"\r\n--")[0]
            return Reply({"id": name})
        if method == "POST":
            sent = json.loads(body)
            assert sent["endpoint"] == "/v1/chat/completions"
            name = f"batch_{len(self.batches)}"
            self.batches[name] = {"id": name, "input_file_id": sent["input_file_id"], "status": "validating"}
            return Reply(self.batches[name])
        if kind == "files":
            return Reply(self.files[name], headers={"content-type": "application/octet-stream"})
        if name is None:
            names = sorted(self.batches)
            start = names.index(query["after"]) + 1 if "after" in query else 0
            page = names[start : start + self.page]
            more = start + self.page < len(names)
            return Reply({"data": [self.batches[one] for one in page], "has_more": more})
        if name not in self.batches:
            return Reply({"error": {"message": f"No batch {name}"}}, 404)
        return Reply(self.batches[name])

    def requests(self, name):
        """The requests of a batch."""
        return [json.loads(line) for line in self.files[self.batches[name]["input_file_id"]].split(b"\n") if line]

    def working(self, name, done):
        counts = {"total": len(self.requests(name)), "completed": done, "failed": 0}
        self.batches[name] |= {"status": "in_progress", "request_counts": counts}

    def finish(self, name, *, status="completed", leave=0, refuse=0, overload=0, twice=False):
        """End a batch: its answers in reverse order, without the first `leave`; `refuse` and `overload` as errors."""
        lines, errors = [], []
        requests = self.requests(name)
        for place, request in enumerate(requests):
            answer = {"status_code": 200, "request_id": "r", "body": self._chat(request["body"])}
            line = {"id": f"l{place}", "custom_id": request["custom_id"], "response": answer, "error": None}
            if place < leave:
                error = {"code": "batch_expired", "message": "This request could not be executed in time."}
                errors.append({**line, "response": None, "error": error})
            elif place < leave + refuse:
                body = {"error": {"message": "this prompt is too long"}}
                errors.append({**line, "response": {"status_code": 400, "body": body}})
            elif place < leave + refuse + overload:
                body = {"error": {"message": "overloaded"}}
                errors.append({**line, "response": {"status_code": 503, "body": body}})
            else:
                lines.append(line)
        lines = lines[::-1] + (lines[:1] if twice else [])
        self.batches[name]["status"] = status
        for key, given in (("output_file_id", lines), ("error_file_id", errors)):
            if given:
                self.batches[name][key] = file = f"file-{len(self.files)}"
                self.files[file] = b"".join(json.dumps(line).encode() + b"\n" for line in given)
