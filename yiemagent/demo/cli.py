"""The command line: ``python -m yiemagent demo [question]`` and ``python -m yiemagent chat``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from yiemagent.demo.screen import Screen
from yiemagent.errors import YiemAgentError

__all__ = ["main"]

DEFAULT_QUESTION = "Which wines have notes of oak and vanilla?"
_WATCHING_PAUSE = 0.012
_INTERRUPTED = 130


def main(
    arguments: Sequence[str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Run the command line.

    Args:
        arguments: Without the program's name; those of the process by default.
        environment: Instead of the process's.
        stdin: Where chat reads questions, instead of the process's.
        stdout: Where the conversation goes, instead of the process's.
        stderr: Where errors go, instead of the process's.

    Returns:
        The exit code: 0, 1 after an error (said in words), 130 after Ctrl-C.
    """
    options = _parser().parse_args(arguments)
    known = os.environ if environment is None else environment
    screen = Screen(stdout or sys.stdout, stderr or sys.stderr, known)
    if options.command is None:
        screen.line(_parser().format_help())
        return 0
    try:
        return _run(options, screen, known, stdin or sys.stdin)
    except YiemAgentError as error:
        screen.error(str(error))
        return 1
    except KeyboardInterrupt:
        screen.line("(stopped)", "dim")
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader left (``| head``): nothing can be said any more, not even by the interpreter at exit.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 1


def _run(options: argparse.Namespace, screen: Screen, environment: Mapping[str, str], stdin: TextIO) -> int:
    from yiemagent.demo.chat import chat
    from yiemagent.demo.model_choice import chosen_model
    from yiemagent.demo.sommelier import ask, cellar_client, sommelier

    pause = _WATCHING_PAUSE if screen.is_terminal else 0.0
    with (
        chosen_model(environment, model=options.model, base_url=options.base_url, pause=pause) as chosen,
        cellar_client() as cellar,
        sommelier(chosen.llm, cellar, options.system) as agent,
    ):
        screen.line(chosen.introduction, "dim")
        if options.command == "chat":
            return 0 if chat(agent, cellar.list_tools, screen, stdin) else 1
        question = " ".join(options.question) or DEFAULT_QUESTION
        screen.line(f"\n? {question}\n", "bold")
        return 0 if ask(agent, question, screen) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m yiemagent",
        description="yiemagent's demonstration: a wine assistant that answers by calling tools.",
    )
    commands = parser.add_subparsers(dest="command", title="commands")
    demo = commands.add_parser("demo", help="ask one question about the wine cellar")
    demo.add_argument("question", nargs="*", help=f"the question; by default: {DEFAULT_QUESTION}")
    talk = commands.add_parser("chat", help="talk to the wine assistant")
    for command in (demo, talk):
        command.add_argument(
            "--model", help="name of the model; by default OPENAI_MODEL, or what the server has"
        )
        command.add_argument(
            "--base-url", help="an OpenAI-compatible server, such as http://localhost:1234/v1"
        )
        command.add_argument("--system", help="system prompt instead of the sommelier's")
    return parser
