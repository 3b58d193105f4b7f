"""A small hub: the part of the Hub's protocol that huggingface_hub and datasets use, with files in LFS mode.

It keeps commits as mappings from path to content, and checks tokens and the parent of a commit. A test can let it wait
`slow` seconds before an upload, call one of `before_commits`, or serve `tampered` content in the place of a file.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

WRITER, READER = "hf_token_that_writes", "hf_token_that_reads"
SMALL = 10_000  # bytes; larger files, and Parquet, go to LFS
API = re.compile(
    r"/api/datasets/(?P<id>[^/]+/[^/]+?)(?:/(?P<what>revision|refs|tree|paths-info|preupload|commit|branch|tag)"
    r"(?:/(?P<rev>[^/]+))?(?:/(?P<path>.*))?)?"
)
FILE = re.compile(r"/datasets/(?P<id>[^/]+/[^/]+)/resolve/(?P<rev>[^/]+)/(?P<path>.+)")
LFS = re.compile(r"/datasets/(?P<id>[^/]+/[^/]+)\.git/info/lfs/objects/batch")


@dataclass
class Repository:
    private: bool = False
    # commit -> path -> key of the content
    commits: dict[str, dict[str, str]] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def commit(self, files, message):
        parent = self.branches.get("main", "")
        name = hashlib.sha1(f"{parent}{time.time_ns()}{message}".encode()).hexdigest()  # noqa: S324  as git does
        self.commits[name], self.messages[name] = files, message
        self.branches["main"] = name
        return name

    def resolve(self, revision):
        named = self.branches.get(revision) or self.tags.get(revision)
        return named or (revision if revision in self.commits else None)


class Hub(ThreadingHTTPServer):
    """The server; `with Hub(folder) as hub:` runs it, and `hub.url` is its address."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.blobs = folder
        self.blobs.mkdir(parents=True, exist_ok=True)
        self.repositories: dict[str, Repository] = {}
        self.tampered: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.before_commits = []  # the last is taken and called before a commit is looked at
        self.slow = 0.0
        self.unplugged = False
        self.gone = threading.Event()
        self.guard = threading.RLock()

    def handle_error(self, request, client_address):
        """A client that was killed leaves its connections; every other error is printed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=[0.01], daemon=True).start()
        return self

    def __exit__(self, *_):
        if not self.unplugged:
            self.unplug()

    def unplug(self) -> None:
        """Answer nothing any more, on open connections neither."""
        self.unplugged = True
        self.gone.set()
        self.shutdown()
        self.server_close()

    def store(self, content: bytes) -> str:
        key = hashlib.sha256(content).hexdigest()
        (self.blobs / key).write_bytes(content)
        return key

    def text(self, repository: str, path: str, revision: str = "main") -> str:
        """A file of a repository, for the tests."""
        stored = self.repositories[repository]
        return (self.blobs / stored.commits[stored.resolve(revision)][path]).read_text("utf-8")

    def files(self, repository: str, revision: str = "main") -> list[str]:
        stored = self.repositories[repository]
        return sorted(stored.commits[stored.resolve(revision)])

    def change(self, repository: str, files: dict[str, str], message: str = "by hand") -> str:
        """Commit files as another person would."""
        with self.guard:
            stored = self.repositories[repository]
            before = stored.commits[stored.branches["main"]]
            changed = {path: self.store(text.encode()) for path, text in files.items()}
            return stored.commit({**before, **changed}, message)


class Refused(Exception):  # noqa: N818
    def __init__(self, status, code=None, message="refused"):
        super().__init__(message)
        self.status, self.code = status, code


@contextmanager
def hub_for_clients(folder: Path, monkeypatch):
    """A running hub; the clients in this process and in its children use it, with a token that may write."""
    from huggingface_hub import constants

    from refladder.files import hub

    with Hub(folder / "hub") as server:
        home, files = str(folder / "home"), "/{repo_id}/resolve/{revision}/{filename}"
        names = {"HF_ENDPOINT": server.url, "HF_HOME": home, "HF_TOKEN": WRITER}
        names |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        for name, value in names.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # which the tests of local models set
        # The clients read these once, when they are imported.
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + files)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", f"{home}/hub")
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        hub._report_moving.cache_clear()
        yield server


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    disable_nagle_algorithm = True  # else an answer in two pieces waits 40 ms for the client

    def log_message(self, *_):
        pass

    def handle_any(self):
        if self.server.unplugged:
            self.close_connection = True
            return
        parts = urlsplit(self.path)
        self.url, self.query = unquote(parts.path), parse_qs(parts.query)
        # A slash in the name of a revision stays an escape.
        self.raw_path = unquote(parts.path.replace("%2F", "\0")).replace("\0", "%2F")
        length = int(self.headers.get("Content-Length") or 0)
        if self.command == "PUT":  # a large file is not held in memory
            self.put_blob(length)
            return
        self.body = self.rfile.read(length)
        self.server.requests.append(f"{self.command} {self.path}")
        try:
            self.route()
        except Refused as error:
            headers = {"X-Error-Message": str(error)}
            if error.code:
                headers["X-Error-Code"] = error.code
            self.reply({"error": str(error)}, error.status, headers)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815

    def reply(self, value=None, status=200, headers=None, content=None):
        data = json.dumps(value).encode() if content is None else content
        self.send_response(status)
        kind = "application/json" if content is None else "application/octet-stream"
        usual = {"Content-Type": kind, "Content-Length": str(len(data))}
        for name, text in {**usual, **(headers or {})}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    @property
    def token(self):
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def must_write(self):
        if self.token != WRITER:
            message = "Forbidden: you need a token with the right to write"
            raise Refused(403 if self.token else 401, None, message)

    def repository(self, name):
        stored = self.server.repositories.get(name)
        if stored is None or (stored.private and self.token not in (WRITER, READER)):
            raise Refused(404 if self.token else 401, "RepoNotFound", "Repository not found")
        return stored

    def revision(self, stored, name):
        commit = stored.resolve(name or "main")
        if commit is None:
            raise Refused(404, "RevisionNotFound", f"Invalid rev id: {name}")
        return commit

    def route(self):
        if self.url == "/api/whoami-v2":
            if not self.token:
                raise Refused(401, None, "Invalid username or password.")
            user = {"type": "user", "name": "someone", "orgs": []}
            self.reply({**user, "auth": {"type": "access_token"}})
        elif self.url == "/api/validate-yaml":
            self.reply({"errors": [], "warnings": []})
        elif self.url == "/api/repos/create":
            self.create()
        elif match := LFS.fullmatch(self.url):
            self.repository(match["id"])
            self.must_write()
            self.lfs_batch()
        elif self.url.startswith("/lfs-verify/"):
            self.reply({})
        elif match := FILE.fullmatch(self.url):
            self.file(self.repository(match["id"]), match["rev"], match["path"])
        elif match := API.fullmatch(self.raw_path):
            self.api(match)
        else:
            raise Refused(404, None, f"no such page: {self.url}")

    def create(self):
        self.must_write()
        asked = json.loads(self.body)
        name = f"{asked.get('organization') or 'someone'}/{asked['name']}"
        with self.server.guard:
            if name in self.server.repositories:
                error = "You already created this dataset repo"
                self.reply({"error": error, "url": self.page(name)}, 409)
                return
            private = bool(asked.get("private")) or asked.get("visibility") == "private"
            stored = self.server.repositories[name] = Repository(private=private)
            attributes = self.server.store(b"*.parquet filter=lfs\n")
            stored.commit({".gitattributes": attributes}, "initial commit")
        self.reply({"url": self.page(name), "name": name, "id": name})

    def page(self, name):
        return f"{self.server.url}/datasets/{name}"

    def api(self, match):
        stored, what, rev = self.repository(match["id"]), match["what"], unquote(match["rev"] or "")
        if what in (None, "revision"):
            commit = self.revision(stored, rev)
            siblings = [{"rfilename": path} for path in stored.commits[commit]]
            about = {"id": match["id"], "sha": commit, "private": stored.private, "tags": []}
            self.reply({**about, "siblings": siblings})
        elif what == "refs":
            branches, tags = self.refs(stored.branches), self.refs(stored.tags)
            self.reply({"branches": branches, "tags": tags, "converts": []})
        elif what == "tree":
            files = stored.commits[self.revision(stored, rev)]
            under = unquote(match["path"] or "")
            self.reply(self.tree(files, under, recursive="recursive" in self.query))
        elif what == "paths-info":
            files = stored.commits[self.revision(stored, rev)]
            is_json = self.body[:1] == b"{"
            asked = json.loads(self.body) if is_json else parse_qs(self.body.decode())
            listed = [path for path in asked["paths"] if path in files]
            self.reply([self.entry(path, files[path]) for path in listed])
        elif what in ("preupload", "commit", "tag"):
            self.must_write()
            getattr(self, what)(stored, match, rev)
        else:
            raise Refused(404)

    @staticmethod
    def refs(known):
        return [
            {"name": name, "ref": f"refs/{name}", "targetCommit": commit}
            for name, commit in known.items()
        ]

    def tree(self, files, under, *, recursive):
        prefix = f"{under}/" if under else ""
        listed, folders = [], set()
        for path, key in sorted(files.items()):
            if not path.startswith(prefix):
                continue
            parts = path[len(prefix) :].split("/")[:-1]
            for depth in range(1, len(parts) + 1 if recursive else min(len(parts), 1) + 1):
                folder = prefix + "/".join(parts[:depth])
                if folder not in folders:
                    folders.add(folder)
                    listed.append({"type": "directory", "oid": "0" * 40, "size": 0, "path": folder})
            if recursive or not parts:
                listed.append(self.entry(path, key))
        if under and not listed:
            raise Refused(404, "EntryNotFound", f"{under} does not exist")
        return listed

    def entry(self, path, key):
        size = (self.server.blobs / key).stat().st_size
        entry = {"type": "file", "oid": key[:40], "size": size, "path": path}
        if self.is_large(path, size):
            entry["lfs"] = {"oid": key, "size": size, "pointerSize": 130}
        return entry

    @staticmethod
    def is_large(path, size):
        return path.endswith(".parquet") or size > SMALL

    def preupload(self, stored, _match, rev):
        files, answers = stored.commits[self.revision(stored, rev)], []
        for asked in json.loads(self.body)["files"]:
            path, key = asked["path"], files.get(asked["path"])
            large = self.is_large(path, asked["size"])
            mode = "lfs" if large else "regular"
            answer = {"path": path, "uploadMode": mode, "shouldIgnore": False}
            if key is not None:  # so that the client leaves out what has not changed
                content = (self.server.blobs / key).read_bytes()
                as_git = hashlib.sha1(b"blob %d\0%s" % (len(content), content))  # noqa: S324
                answer["oid"] = key if large else as_git.hexdigest()
            answers.append(answer)
        self.reply({"files": answers})

    def lfs_batch(self):
        objects = []
        for wanted in json.loads(self.body)["objects"]:
            links = {
                "upload": {"href": f"{self.server.url}/lfs/{wanted['oid']}"},
                "verify": {"href": f"{self.server.url}/lfs-verify/{wanted['oid']}"},
            }
            stored = (self.server.blobs / wanted["oid"]).exists()
            objects.append({**wanted, **({} if stored else {"actions": links})})
        self.reply({"transfer": "basic", "objects": objects})

    def put_blob(self, length):
        key = self.path.rpartition("/")[2]
        self.server.requests.append(f"PUT {self.path}")
        self.server.gone.wait(self.server.slow)
        partial = self.server.blobs / f"{key}.{threading.get_ident()}"
        with partial.open("wb") as stream:
            while length and (piece := self.rfile.read(min(length, 1 << 20))):
                stream.write(piece)
                length -= len(piece)
        partial.replace(self.server.blobs / key)
        self.reply({})

    def commit(self, stored, match, rev):
        if self.server.before_commits:
            self.server.before_commits.pop()()
        lines = [json.loads(line) for line in self.body.splitlines()]
        header = next(line["value"] for line in lines if line["key"] == "header")
        with self.server.guard:
            parent = self.revision(stored, rev)
            if header.get("parentCommit") not in (None, parent):
                message = "A commit has happened since. Please refresh and try again."
                raise Refused(412, None, message)
            files = dict(stored.commits[parent])
            for line in lines:
                value = line["value"]
                if line["key"] == "file":
                    files[value["path"]] = self.server.store(base64.b64decode(value["content"]))
                elif line["key"] == "lfsFile":
                    files[value["path"]] = value["oid"]
                elif line["key"] == "deletedFile":
                    if value["path"] not in files:
                        raise Refused(404, "EntryNotFound", f"{value['path']} does not exist")
                    del files[value["path"]]
                elif line["key"] == "deletedFolder":
                    gone = [path for path in files if path.startswith(value["path"])]
                    for path in gone:
                        del files[path]
            name = stored.commit(files, header["summary"])
        url = f"{self.server.url}/datasets/{match['id']}/commit/{name}"
        self.reply({"success": True, "commitUrl": url, "commitOid": name, "pullRequestUrl": None})

    def tag(self, stored, _match, rev):
        asked = json.loads(self.body)
        if asked["tag"] in stored.tags:
            raise Refused(409, None, "Tag reference exists already")
        stored.tags[asked["tag"]] = self.revision(stored, rev)
        self.reply({})

    def file(self, stored, rev, path):
        commit = self.revision(stored, rev)
        key = stored.commits[commit].get(path)
        if key is None:
            raise Refused(404, "EntryNotFound", f"{path} does not exist")
        content = self.server.tampered.get(path) or (self.server.blobs / key).read_bytes()
        headers = {"X-Repo-Commit": commit, "ETag": f'"{key}"', "Accept-Ranges": "bytes"}
        if self.is_large(path, len(content)):
            headers |= {"X-Linked-Etag": f'"{key}"', "X-Linked-Size": str(len(content))}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if wanted is None or self.command == "HEAD":
            self.reply(content=content, headers=headers)
            return
        first, last = int(wanted[1]), min(int(wanted[2] or len(content) - 1), len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        self.reply(content=content[first : last + 1], headers=headers, status=206)


def main() -> None:
    """Serve until standard input ends; prints the address."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with Hub(folder, port) as hub:
        sys.stdout.write(f"{hub.url}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
