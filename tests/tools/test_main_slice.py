"""What a child process runs of the main script."""

from __future__ import annotations

import ast

import pytest

from yiemagent.tools.main_slice import slice_script

SCRIPT = '''"""Doc."""
from __future__ import annotations
import os, sys as system
import package.sub
from json import dumps as to_json, loads
from math import *

print("starts")
LIMIT = 3
TABLE = {}
TABLE["x"] = LIMIT
TABLE.other = 1
UNUSED = start_server()
try:
    import fast
except ImportError as problem:
    fast = None
if system.platform == "linux":
    SEPARATOR = "/"
for NAME in ("a", "b"):
    ALL = NAME
with open("x") as HANDLE:
    CONTENT = HANDLE.read()
(FIRST, *REST) = range(3)
SQUARES = [inner for inner in range(3)]

class Base: ...

class Wine(Base):
    kind: "Kind"
    note: "Annotated[str, 'two words']"
    text: Annotated[str, 'no python!']

class Kind: ...

def helper(wine: Wine) -> None:
    local = LIMIT
    return TABLE, local

agent = Agent(tools=[helper])
result = agent.run("prompt")

if __name__ == "__main__":
    helper = None
    agent.run("again")
'''


def kept(*wanted: str) -> list[str]:
    return [ast.unparse(statement).splitlines()[0] for statement in slice_script(SCRIPT, wanted).body]


ALWAYS = ["from __future__ import annotations", "from math import *"]


@pytest.mark.parametrize(
    ("wanted", "needed"),
    [
        ((), []),
        (("nothing",), []),
        (("LIMIT",), ["LIMIT = 3"]),
        (("TABLE",), ["LIMIT = 3", "TABLE = {}", "TABLE['x'] = LIMIT", "TABLE.other = 1"]),
        (("to_json",), ["from json import dumps as to_json, loads"]),
        (("package",), ["import package.sub"]),
        (("fast",), ["try:"]),
        (("problem",), ["try:"]),
        (("SEPARATOR",), ["import os, sys as system", "if system.platform == 'linux':"]),
        (("ALL",), ["for NAME in ('a', 'b'):"]),
        (("CONTENT",), ["with open('x') as HANDLE:"]),
        (("REST",), ["FIRST, *REST = range(3)"]),
        (("inner",), []),
        (("Wine",), ["class Base:", "class Wine(Base):", "class Kind:"]),
        (("result",), []),
    ],
)
def test_only_what_the_wanted_names_need_is_run(wanted: tuple[str, ...], needed: list[str]) -> None:
    """Imports, definitions and assignments, followed through what they use."""
    if wanted == ("result",):
        assert kept(*wanted)[-2:] == ["agent = Agent(tools=[helper])", "result = agent.run('prompt')"]
        return
    assert [line for line in kept(*wanted) if line not in ALWAYS] == needed


def test_a_function_is_run_without_prompts_servers_and_prints() -> None:
    """The script may have no ``if __name__ == "__main__"``."""
    lines = kept("helper")

    assert "def helper(wine: Wine) -> None:" in lines
    assert "class Kind:" in lines
    assert "LIMIT = 3" in lines
    assert not any(
        "agent" in line or "print" in line or "UNUSED" in line or "__name__" in line for line in lines
    )


def test_statements_stay_in_their_order() -> None:
    """A decorator must be defined before it is used."""
    lines = kept("helper", "SEPARATOR")

    assert lines.index("import os, sys as system") < lines.index("LIMIT = 3")
    assert lines.index("LIMIT = 3") < lines.index("def helper(wine: Wine) -> None:")
