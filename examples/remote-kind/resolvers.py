#!/usr/bin/env python3
"""Makes items of kind `example.resolver` real: the resolv.conf of a network namespace.

A descriptor and an actuator in a process of their own. The descriptor is data, said once; the actuator answers what the
agent asks. `ip netns exec NAME` shows the file of the namespace NAME as /etc/resolv.conf.

    python3 resolvers.py --socket /run/kilter/kilter.sock --folder /etc/netns

It needs the packages grpcio and grpcio-tools.
"""

import argparse
import importlib
import json
import os
import pathlib
import queue
import sys
import tempfile
import threading

import grpc
from grpc_tools import protoc

KIND = "example.resolver"
MARK = "# kept by kilter: "


def stubs(proto):
    """The messages and the client, made from the agent's own protobuf files."""
    out = tempfile.mkdtemp()
    files = ["kilter/v1/actuator.proto"]
    include = [f"-I{proto}", f"-I{pathlib.Path(protoc.__file__).parent / '_proto'}"]
    if protoc.main(["protoc", *include, f"--python_out={out}", f"--grpc_python_out={out}", *files]) != 0:
        sys.exit(f"the protobuf files below {proto} cannot be compiled")
    sys.path.insert(0, out)
    messages = importlib.import_module("kilter.v1.actuator_pb2")
    services = importlib.import_module("kilter.v1.actuator_pb2_grpc")
    return messages, services


class Folder:
    """One file for each item, and nothing of anybody else's."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def path(self, name):
        return self.folder / name / "resolv.conf"

    def write(self, name, value):
        path = self.path(name)
        if path.exists() and not self.is_ours(path):
            raise PermissionError(f"{path} was written by somebody else")
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [MARK + json.dumps(value, sort_keys=True)]
        lines += [f"nameserver {server}" for server in value["nameservers"]]
        if value.get("search"):
            lines.append("search " + " ".join(value["search"]))
        unfinished = path.with_name(".resolv.conf")
        unfinished.write_text("\n".join(lines) + "\n")
        os.replace(unfinished, path)

    def delete(self, name):
        path = self.path(name)
        if path.exists() and self.is_ours(path):
            path.unlink()
            if not any(path.parent.iterdir()):
                path.parent.rmdir()

    def read(self, name):
        """What stands there, as an item; nothing if there is no such file."""
        try:
            lines = self.path(name).read_text().splitlines()
        except FileNotFoundError:
            return None
        value = {"name": name, "nameservers": [], "search": []}
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "nameserver":
                value["nameservers"].append(rest)
            elif word == "search":
                value["search"] = rest.split()
        if not value["search"]:
            del value["search"]
        return value, self.is_ours(self.path(name))

    def names(self):
        return [path.parent.name for path in self.folder.glob("*/resolv.conf")]

    def is_ours(self, path):
        return path.read_text().startswith(MARK)

    def stamps(self):
        """When each file was last changed, to notice what somebody else does."""
        return {name: self.path(name).stat().st_mtime_ns for name in self.names() if self.path(name).exists()}


class Resolvers:
    """Answers what the agent asks."""

    def __init__(self, messages, folder):
        self.messages = messages
        self.folder = folder
        self.says = queue.Queue()
        self.seen = folder.stamps()

    def register(self):
        """Begins anew: the first thing said is which kind this is."""
        m = self.messages
        self.says = queue.Queue()
        text = {"type": "string", "minLength": 1}
        schema = {
            "type": "object",
            "properties": {
                "kind": True,
                "name": True,
                "nameservers": {"type": "array", "items": text, "minItems": 1, "maxItems": 3},
                "search": {"type": "array", "items": text},
            },
            "required": ["nameservers"],
            "additionalProperties": False,
        }
        kind = m.RemoteKind(
            kind=KIND,
            about="Who is asked for names inside a network namespace.",
            schema=json.dumps(schema),
            needs=[m.NeedRule(on="linux/netns/{name}")],
        )
        self.say(register=m.RegisterKinds(name="resolvers.py", kinds=[kind]))

    def say(self, **what):
        self.says.put(self.messages.ActuatorSays(**what))

    def answer(self, operation):
        m = self.messages
        name = operation.key.rsplit("/", 1)[-1]
        what = operation.WhichOneof("what")
        try:
            if what in ("create", "update"):
                wanted = operation.create.value if what == "create" else operation.update.new
                self.folder.write(name, json.loads(wanted))
                how = {"done": m.OperationDone()}
            elif what == "delete":
                self.folder.delete(name)
                how = {"done": m.OperationDone()}
            else:
                names = [name] if what == "retrieve" else self.folder.names()
                how = {"found": m.ItemsFound(items=[item for name in names for item in self.found(name)])}
        except PermissionError as error:
            how = {"failed": m.OperationFailed(message=str(error), lasting=True)}
        except OSError as error:
            how = {"failed": m.OperationFailed(message=str(error))}
        self.seen = self.folder.stamps()
        self.say(answer=m.OperationAnswer(id=operation.id, **how))

    def found(self, name):
        read = self.folder.read(name)
        if read is None:
            return []
        value, is_ours = read
        return [self.messages.FoundItem(name=name, value=json.dumps(value), foreign=not is_ours)]

    def notice(self):
        """Tells the agent which files are not as they were."""
        now = self.folder.stamps()
        changed = [name for name in {*now, *self.seen} if now.get(name) != self.seen.get(name)]
        self.seen = now
        if changed:
            self.say(noticed=self.messages.NoticedItems(kind=KIND, names=changed))

    def take(self, asked):
        what = asked.WhichOneof("what")
        if what == "registered":
            print("ready", flush=True)
        elif what == "alive":
            self.say(alive=self.messages.Alive())
        elif what == "batch":
            for operation in asked.batch.operations:
                self.answer(operation)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--socket", default="/run/kilter/kilter.sock")
    parser.add_argument("--folder", default="/etc/netns")
    parser.add_argument("--proto", default=here.parent.parent / "crates/api/proto")
    options = parser.parse_args()
    messages, services = stubs(options.proto)
    resolvers = Resolvers(messages, Folder(options.folder))
    lock = threading.Lock()

    def watch():
        while True:
            threading.Event().wait(0.5)
            with lock:
                resolvers.notice()

    threading.Thread(target=watch, daemon=True).start()
    # gRPC names the host of a unix socket by its path, which is none: the agent wants a proper one.
    channel = grpc.insecure_channel(f"unix:{options.socket}", options=[("grpc.default_authority", "localhost")])
    client = services.ActuatorsStub(channel)
    while True:
        with lock:
            resolvers.register()
        try:
            for asked in client.Attach(iter(resolvers.says.get, None), wait_for_ready=True):
                with lock:
                    resolvers.take(asked)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                sys.exit(f"the agent: {error.details()}")
        # The agent has ended or hands over to another one: the process attaches to the next.
        resolvers.says.put(None)
        threading.Event().wait(0.2)


if __name__ == "__main__":
    main()
