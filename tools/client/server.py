"""One llama-server as a child process, if wanted in a control group that limits its memory."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

GROUPS = pathlib.Path("/sys/fs/cgroup")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Group:
    """A memory control group, of either version of the interface, without swap."""

    def __init__(self, limit):
        old = GROUPS / "memory"
        self.dir = (old if old.is_dir() else GROUPS) / f"les-client-{os.getpid()}"
        self.dir.mkdir()
        names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes") if old.is_dir() else ("memory.max", "memory.swap.max")
        (self.dir / names[0]).write_text(str(limit))
        try:
            (self.dir / names[1]).write_text(str(limit) if old.is_dir() else "0")
        except OSError:
            pass  # a kernel without swap accounting
        self.peak_file = self.dir / ("memory.max_usage_in_bytes" if old.is_dir() else "memory.peak")

    def enter(self):
        (self.dir / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self):
        return int(self.peak_file.read_text())

    def remove(self):
        for _ in range(50):
            try:
                self.dir.rmdir()
                return
            except OSError:
                time.sleep(0.1)


class Server:
    """A server that answers once this is made. Use it in a with statement."""

    def __init__(self, program, args, log, limit=0):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.group = Group(limit) if limit else None
        self.log = open(log, "ab")
        environment = {k: v for k, v in os.environ.items() if k != "LES" and not k.startswith("LES_")}
        self.process = subprocess.Popen(
            [program, "--port", str(self.port), "--metrics", "--no-webui", *args],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=environment,
            preexec_fn=self.group.enter if self.group else None)
        try:
            self.wait_ready()
        except BaseException:
            self.close()
            raise

    def wait_ready(self):
        deadline = time.time() + 900
        while time.time() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}: see {self.log.name}")
            try:
                self.get("/health")
                return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
        raise RuntimeError("the server does not become ready")

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=600) as answer:
            return answer.read().decode()

    def post(self, path, body):
        """Returns status and body."""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def metrics(self):
        lines = (line.split() for line in self.get("/metrics").splitlines() if not line.startswith("#"))
        return {line[0].removeprefix("llamacpp:"): float(line[1]) for line in lines if len(line) == 2}

    def held(self):
        """What the process holds: descriptors, threads, resident bytes."""
        proc = pathlib.Path(f"/proc/{self.process.pid}")
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        return len(list((proc / "fd").iterdir())), int(status["Threads"]), int(status["VmRSS"].split()[0]) << 10

    def close(self):
        """Ends the server and returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.log.close()
        if self.group:
            self.group.remove()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
