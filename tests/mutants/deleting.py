"""Every line of a module taken away, one at a time, as far as what is left is still Python.

Lines are physical, so that a clause of a long condition, a line of SQL or one argument of a call goes
alone. Where that leaves no program, the statement that begins there gives way to `pass`. What says
nothing at run time stays: imports, docstrings, comments, headers of functions and classes, and what
is for the type checker only.
"""

import ast
import warnings
from collections.abc import Iterator

_SILENT = (ast.Import, ast.ImportFrom, ast.Pass)
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FOR_TYPES = ("override", "overload")


def deletions(source: str) -> Iterator[tuple[int, str]]:
    """(line, the text without it) for each line whose absence makes another program."""
    tree = ast.parse(source)
    sound = ast.dump(tree)
    silent = _silent_lines(tree)
    lines = source.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        if number in silent or not line.strip() or line.lstrip().startswith("#"):
            continue
        for text in _without(lines, number, tree):
            if _differs(text, sound):
                yield number, text
                break


def _without(lines: list[str], number: int, tree: ast.Module) -> Iterator[str]:
    """The ways to take a line away, the smallest first."""
    before, line, after = lines[: number - 1], lines[number - 1], lines[number:]
    yield "".join([*before, *after])
    indent = line[: len(line) - len(line.lstrip())]
    yield "".join([*before, f"{indent}pass\n", *after])
    end = _end_of_statement(tree, number)
    if end is not None:
        yield "".join([*before, f"{indent}pass\n", *lines[end:]])


def _differs(text: str, sound: str) -> bool:
    try:
        program = ast.parse(text)
        with warnings.catch_warnings(action="ignore"):  # a string that is called is wrong, but runs
            compile(program, "", "exec")
    except SyntaxError:
        return False
    return ast.dump(program) != sound


def _end_of_statement(tree: ast.Module, number: int) -> int | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, _NAMED) and node.lineno == number:
            return node.end_lineno
    return None


def _silent_lines(tree: ast.Module) -> set[int]:
    silent: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, _NAMED):
            silent.update(range(node.lineno, node.body[0].lineno))
            silent.update(
                each.lineno
                for each in node.decorator_list
                if isinstance(each, ast.Name) and each.id in _FOR_TYPES
            )
        elif isinstance(node, _SILENT) or _is_docstring(node):
            assert isinstance(node, ast.stmt)
            silent.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return silent


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
