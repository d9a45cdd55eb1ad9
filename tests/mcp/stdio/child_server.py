"""A stdio MCP server that misbehaves as its arguments say. Standard library only, starts fast.

usage: child_server.py [name=value ...]
"""

import json
import os
import signal
import subprocess
import sys
import time

OPTIONS = dict(arg.split("=", 1) for arg in sys.argv[1:])
OUT = sys.stdout.buffer


def write(message):
    OUT.write(json.dumps(message).encode() + b"\n")
    OUT.flush()


def reply(request, result):
    write({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def crash(request, args):
    print("last words on stderr", file=sys.stderr, flush=True)
    os._exit(int(args.get("code", 3)))


def kill_self(request, args):
    os.kill(os.getpid(), signal.SIGKILL)


def where(request, args):
    child = CHILD.pid if CHILD else None
    ours = {"pid": os.getpid(), "group": os.getpgid(0), "session": os.getsid(0)}
    return text(json.dumps({**ours, "child": child}))


def noise(request, args):
    OUT.write(b"this line is not JSON\n" * args.get("lines", 1))
    return text("ok")


def half_line(request, args):
    OUT.write(b'{"jsonrpc": "2.0", ')
    OUT.flush()
    OUT.write(b'"id": %d, "result": {"content": []}}' % request["id"])
    OUT.flush()
    os._exit(0)


def close_stdout(request, args):
    os.close(1)
    while True:
        signal.pause()


def stderr_flood(request, args):
    sys.stderr.write("warning: something\n" * args["lines"])
    sys.stderr.flush()
    return text("ok")


def pieces(request, args):
    line = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": text("in pieces")}) + "\n"
    for byte in line.encode():
        OUT.write(bytes([byte]))
        OUT.flush()


def batch(request, args):
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
    write([note, {"jsonrpc": "2.0", "id": request["id"], "result": text("in a batch")}])


def ask(request, args):
    write({"jsonrpc": "2.0", "id": "srv-1", "method": "elicitation/create", "params": args})
    return text(json.dumps(json.loads(sys.stdin.buffer.readline())["result"]))


def stop_reading(request, args):
    time.sleep(args["seconds"])
    return text("read again")


def hold(request, args):
    with open(args["fifo"]) as fifo:
        fifo.read()  # until somebody has opened it for writing and closed it
    return text("let go")


def afterwards(request, args):
    reply(request, text("answered"))
    hold(request, args)
    write({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})


TOOLS = {
    "afterwards": afterwards,
    "ask": ask,
    "batch": batch,
    "big": lambda request, args: text("x" * args["bytes"]),
    "close_stdout": close_stdout,
    "crash": crash,
    "cwd": lambda request, args: text(os.getcwd()),
    "echo": lambda request, args: text(json.dumps(args)),
    "env": lambda request, args: text(json.dumps(dict(os.environ))),
    "half_line": half_line,
    "hold": hold,
    "kill_self": kill_self,
    "noise": noise,
    "pieces": pieces,
    "silent": lambda request, args: None,
    "stderr_flood": stderr_flood,
    "stop_reading": stop_reading,
    "where": where,
}


def call(request):
    """The result of a tool; None when it answers by itself or never."""
    return TOOLS[request["params"]["name"]](request, request["params"].get("arguments", {}))


def answer(request):
    method = request["method"]
    if method == "server/discover":
        if "die_on_probe" in OPTIONS:
            os._exit(1)
        reply(request, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
    elif method == "initialize":
        version = request["params"]["protocolVersion"]
        reply(
            request,
            {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "child"}},
        )
    elif method == "tools/list":
        reply(request, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        result = call(request)
        if result is not None:
            reply(request, result)
    elif method == "ping":
        reply(request, {})
    else:
        write({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no " + method}})


def record(name, line):
    with open(OPTIONS[name], "a") as file:
        file.write(line + "\n")


CHILD = None
if "ignore_term" in OPTIONS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "record_term" in OPTIONS:

    def on_term(*_):
        record("record_term", "SIGTERM")
        os._exit(0)

    signal.signal(signal.SIGTERM, on_term)
if "grandchild" in OPTIONS:
    # Does what npx does: a child of its own in the same group, with no pipe of ours.
    on_term = {
        "plain": "signal.SIG_DFL",
        "stubborn": "signal.SIG_IGN",
        "orderly": f"lambda *_: (open({OPTIONS.get('record_child')!r}, 'w').write('SIGTERM'), os._exit(0))",
    }[OPTIONS["grandchild"]]
    program = f"import os, signal, time; signal.signal(signal.SIGTERM, {on_term}); "
    CHILD = subprocess.Popen(
        [sys.executable, "-c", program + "print('up', flush=True); time.sleep(600)"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    CHILD.stdout.readline()
if "started" in OPTIONS:
    record("started", str(os.getpid()))
if "stderr" in OPTIONS:
    print(OPTIONS["stderr"], file=sys.stderr, flush=True)
if "exit_at_start" in OPTIONS:
    sys.exit(int(OPTIONS["exit_at_start"]))
if "banner" in OPTIONS:
    OUT.write(b'*** Welcome to the server! ***\n{"level": "info", "msg": "listening"}\n\n42\n')
    OUT.flush()

for line in sys.stdin.buffer:
    message = json.loads(line)
    if "log" in OPTIONS:
        record("log", line.decode().strip())
    if "method" in message and "id" in message:
        answer(message)

if "record_eof" in OPTIONS:
    record("record_eof", "EOF")
if "ignore_eof" in OPTIONS:
    while True:
        signal.pause()
