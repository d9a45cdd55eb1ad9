"""The part of a script that defines some names, without what the script does.

A child process that must find a function of ``__main__`` cannot import the script: that would
run it again, with its agents and prompts. It runs only the imports, definitions and assignments
that the wanted names need.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

__all__ = ["slice_script"]

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def slice_script(source: str, wanted: Iterable[str]) -> ast.Module:
    """The statements of *source* that *wanted* names need, in their order.

    Left out are bare expressions, such as calls, and ``if __name__ == "__main__"``.

    Raises:
        SyntaxError: *source* is not Python.
    """
    tree = ast.parse(source)
    needed = set(wanted)
    candidates = [statement for statement in tree.body if not _is_action(statement)]
    kept = [_is_always_needed(statement) for statement in candidates]
    grown = True
    while grown:
        grown = False
        for index, statement in enumerate(candidates):
            if kept[index] or needed.isdisjoint(_bound(statement)):
                continue
            kept[index] = grown = True
            needed.update(_used(statement))
    tree.body = [statement for statement, keep in zip(candidates, kept, strict=True) if keep]
    return tree


def _is_action(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return True
    return isinstance(statement, ast.If) and "__name__" in set(_names(statement.test))


def _is_always_needed(statement: ast.stmt) -> bool:
    """Whether *statement* binds names that cannot be told, or changes how the rest is read."""
    return isinstance(statement, ast.ImportFrom) and (
        statement.module == "__future__" or any(alias.name == "*" for alias in statement.names)
    )


def _bound(node: ast.AST) -> Iterator[str]:
    """Names that *node* binds, or whose objects it changes, in the scope of the module."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield (alias.asname or alias.name).split(".")[0]
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        yield from _names(node.value)
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name
    if not isinstance(node, (*_SCOPES, *_COMPREHENSIONS)):
        for child in ast.iter_child_nodes(node):
            yield from _bound(child)


def _used(statement: ast.stmt) -> Iterator[str]:
    """Names that *statement* reads anywhere inside, quoted annotations included."""
    yield from _names(statement)
    for node in ast.walk(statement):
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(annotation, ast.AST):
                yield from _quoted_names(annotation)


def _quoted_names(annotation: ast.AST) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                yield from _names(ast.parse(node.value, mode="eval"))
            except SyntaxError:
                continue  # A description in Annotated.


def _names(node: ast.AST) -> Iterator[str]:
    return (inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
