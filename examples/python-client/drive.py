"""Drives an agent over gRPC from Python: plan, apply, watch, ask why, and what an error says; and once more with messages
that nobody generated, as the agent describes them itself.

    pip install grpcio-tools grpcio-reflection grpcio-status
    python -m grpc_tools.protoc --proto_path crates/api/proto --python_out . --grpc_python_out . \
        crates/api/proto/kilter/v1/*.proto
    PYTHONPATH=. python examples/python-client/drive.py /run/kilter/kilter.sock

It declares a network namespace and a route that waits, as the source `python`, and takes both back at the end.
"""

import json
import queue
import sys
import threading

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status
from kilter.v1 import agent_pb2, agent_pb2_grpc, item_pb2, problem_pb2

SOURCE = "python"
SPACE = "linux/netns/python1"
ROUTE = {"netns": "python1", "destination": "10.60.0.0/16", "via": "10.50.0.1", "link": "nowhere"}


def declared(kind, **fields):
    """An item as a document would say it."""
    return item_pb2.DeclaredItem(kind=kind, value=json.dumps(fields))


def everything(*items):
    """All that our source declares from now on."""
    declaration = item_pb2.Declaration(source=SOURCE, items=items, everything=True)
    return agent_pb2.PlanRequest(declaration=declaration, on_failure=agent_pb2.ON_FAILURE_REVERT)


def apply(agent, request, **options):
    """Applies, and returns the plan that is told first and how it ended."""
    plan = ended = None
    for progress in agent.Apply(agent_pb2.ApplyRequest(request=request, **options)):
        which = progress.WhichOneof("what")
        plan = progress.planned if which == "planned" else plan
        ended = progress.ended if which == "ended" else ended
    return plan, ended


def problem_of(call):
    """The problem that a call ends with: a reason, a message, the chain of causes, a hint."""
    try:
        call()
    except grpc.RpcError as error:
        problem = problem_pb2.Problem()
        for detail in rpc_status.from_call(error).details:
            if detail.Unpack(problem):
                return error.code(), problem
        raise
    raise AssertionError("it should have been refused")


def reflected(channel):
    """What the agent says it speaks: the methods of each service, by name."""
    database = ProtoReflectionDescriptorDatabase(channel)
    file = database.FindFileContainingSymbol("kilter.v1.Agent")
    [service] = [service for service in file.service if service.name == "Agent"]
    return set(database.get_services()), {method.name for method in service.method}


class Reflected:
    """Calls an agent knowing nothing but what it says about itself."""

    def __init__(self, channel):
        self.channel = channel
        self.pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))

    def message(self, name, /, **fields):
        """A message by its name."""
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(f"kilter.v1.{name}"))(**fields)

    def call(self, service, method, request):
        """Asks a method; `request` is a message, or an iterator of messages where the method takes a stream."""
        name = f"kilter.v1.{service}"
        described = self.pool.FindServiceByName(name).FindMethodByName(method)
        answer = message_factory.GetMessageClass(described.output_type)
        shape = ("stream" if described.client_streaming else "unary", "stream" if described.server_streaming else "unary")
        ask = getattr(self.channel, "_".join(shape))(
            f"/{name}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return ask(request)


def drive_reflected(channel):
    """Asks one question, makes a kind real, applies an item of it and takes it back, with reflected messages alone."""
    agent = Reflected(channel)
    health = agent.call("Agent", "GetHealth", agent.message("GetHealthRequest"))
    assert health.version, health

    says = queue.Queue()
    kind = agent.message("RemoteKind", kind="example.note", about="A note that only this program knows.")
    register = agent.message("RegisterKinds", name="notes", kinds=[kind])
    says.put(agent.message("ActuatorSays", register=register))
    asked = agent.call("Actuators", "Attach", iter(says.get, None))
    assert next(asked).WhichOneof("what") == "registered"
    made = {}
    threading.Thread(target=make_real, args=(agent, asked, says, made), daemon=True).start()

    note = {"name": "one", "text": "hello"}
    status = apply_reflected(agent, [agent.message("DeclaredItem", kind="example.note", value=json.dumps(note))])
    assert status.state == item_pb2.STATE_CONFIGURED, status
    assert made == {"example/note/one": note}, made
    status = apply_reflected(agent, [])
    assert status.state == item_pb2.STATE_NONEXISTENT, status
    assert not made, made
    says.put(None)
    print("reflected messages: a question, and a kind made real")


def apply_reflected(agent, items):
    """Declares these items and nothing else; how the note stands then."""
    declaration = agent.message("Declaration", source=SOURCE, items=items, everything=True)
    request = agent.message("PlanRequest", declaration=declaration)
    progress = agent.call("Agent", "Apply", agent.message("ApplyRequest", request=request))
    [ended] = [told.ended for told in progress if told.WhichOneof("what") == "ended"]
    [status] = [status for status in ended.statuses if status.key == "example/note/one"]
    return status


def make_real(agent, asked, says, made):
    """Makes notes real until the stream ends."""
    for one in asked:
        which = one.WhichOneof("what")
        if which == "alive":
            says.put(agent.message("ActuatorSays", alive=agent.message("Alive")))
        for operation in one.batch.operations if which == "batch" else []:
            says.put(agent.message("ActuatorSays", answer=answered(agent, operation, made)))


def answered(agent, operation, made):
    """What the program that knows notes does about an operation, and answers."""
    which = operation.WhichOneof("what")
    if which in ("retrieve", "retrieve_all"):
        found = [
            agent.message("FoundItem", name=value["name"], value=json.dumps(value))
            for key, value in made.items()
            if operation.key in ("", key)
        ]
        return agent.message("OperationAnswer", id=operation.id, found=agent.message("ItemsFound", items=found))
    if which == "create":
        made[operation.key] = json.loads(operation.create.value)
    if which == "delete":
        made.pop(operation.key, None)
    return agent.message("OperationAnswer", id=operation.id, done=agent.message("OperationDone"))


def main(socket):
    # Without it the path of the socket is sent as the name of the host, which no HTTP/2 server has to accept.
    channel = grpc.insecure_channel(f"unix:{socket}", options=[("grpc.default_authority", "localhost")])
    agent = agent_pb2_grpc.AgentStub(channel)

    services, methods = reflected(channel)
    assert {"kilter.v1.Agent", "kilter.v1.Actuators", "grpc.health.v1.Health"} <= services, services
    ours = {method.name for method in agent_pb2.DESCRIPTOR.services_by_name["Agent"].methods}
    assert methods == ours, methods ^ ours
    print(f"reflection: {len(methods)} methods, as the files say")

    health = agent.GetHealth(agent_pb2.GetHealthRequest(), wait_for_ready=True)
    print(f"agent {health.version}, {health.vertices} vertices")

    watch = agent.WatchStatuses(agent_pb2.WatchStatusesRequest(prefix=SPACE))
    assert next(watch).snapshot, "a watch begins with a snapshot"

    space, route = declared("netns", name="python1"), declared("route", **ROUTE)
    plan = agent.Plan(everything(space, route)).plan
    assert any(step.key == SPACE for step in plan.steps), plan
    shown, ended = apply(agent, everything(space, route), expected_hash=plan.hash, description="from Python")
    assert shown.hash == plan.hash
    print(f"txn #{ended.transaction.seq}: {told_of(ended)}")

    told = next(watch)
    assert [status.key for status in told.statuses] == [SPACE], told
    assert told.statuses[0].state == item_pb2.STATE_CONFIGURED

    waiting = next(status for status in ended.statuses if status.state == item_pb2.STATE_PENDING)
    explained = agent.Explain(agent_pb2.ExplainRequest(key=waiting.key))
    assert explained.ByteSize() > 0
    print(f"{waiting.key} waits")

    code, problem = problem_of(lambda: agent.Explain(agent_pb2.ExplainRequest(key="linux/netns/pyton1")))
    assert code == grpc.StatusCode.NOT_FOUND and SPACE in problem.hint, problem
    stale = agent_pb2.ApplyRequest(request=everything(), expected_hash="0" * 64)
    code, problem = problem_of(lambda: list(agent.Apply(stale)))
    assert code == grpc.StatusCode.ABORTED and problem.reason == problem_pb2.REASON_STALE, problem
    wrong = everything(declared("netns", nmae="x"))
    code, problem = problem_of(lambda: agent.Plan(wrong))
    assert code == grpc.StatusCode.INVALID_ARGUMENT, problem

    _, ended = apply(agent, everything(), description="taken back")
    gone = {status.key for status in ended.statuses if status.state == item_pb2.STATE_NONEXISTENT}
    assert SPACE in gone, ended
    watch.cancel()
    drive_reflected(channel)
    print("done")


def told_of(ended):
    """What a transaction did, in a few words."""
    return f"{ended.transaction.operations} operations, {len(ended.statuses)} items concerned"


if __name__ == "__main__":
    main(sys.argv[1])
