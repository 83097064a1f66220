"""Putting a fault into functions and constants that are loaded already: nothing is imported anew."""

import ast
import gc
import inspect
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

Place = tuple[str, str, int]
"""File, qualified name and first line of a function."""
Loaded = dict[Place, list[FunctionType]]


class NotSwappable(Exception):  # noqa: N818 - named for what it is
    """What the fault changes cannot be exchanged while it is loaded."""


def functions_loaded(folder: Path) -> Loaded:
    """Every function that lives now and was written in `folder`."""
    found: Loaded = {}
    for each in gc.get_objects():
        # To ask a lazy object what it is an instance of is to ask what stands behind it.
        if type(each) is FunctionType and each.__code__.co_filename.startswith(str(folder)):
            found.setdefault(_place(each.__code__), []).append(each)
    return found


def forget(folder: Path) -> None:
    """Empty the caches of the functions that were written in `folder`."""
    for module in _modules():
        if str(module.__file__).startswith(str(folder)):
            for each in vars(module).values():
                if type(each) is _lru_cache_wrapper:
                    each.cache_clear()


def swap(loaded: Loaded, *, file: Path, sound: str, faulty: str) -> None:
    """Make of the loaded `sound` text of a file the `faulty` one; raises `NotSwappable`."""
    before, after = ast.parse(sound), ast.parse(faulty)
    if _decorators(before) != _decorators(after):
        raise NotSwappable("a function is decorated otherwise")
    changed = _changed(_functions(before), _functions(after))
    with warnings.catch_warnings(action="ignore"):  # what is wrong shows when it runs
        old, new = (_codes(compile(text, str(file), "exec")) for text in (sound, faulty))
    if len(changed) != len(old) or len(old) != len(new):
        raise NotSwappable("functions come or go")
    if not any(changed):
        _swap_constants(before, after, file=file, faulty=faulty)
    for was, code, differs in zip(old, new, changed, strict=True):
        if differs:
            _swap_function(loaded.get(_place(was), []), code)


def _swap_function(functions: Sequence[FunctionType], code: CodeType) -> None:
    if not functions:
        raise NotSwappable("it lives nowhere")
    for function in functions:
        try:
            function.__code__ = code
        except ValueError as error:
            raise NotSwappable(str(error)) from error


def _swap_constants(before: ast.Module, after: ast.Module, *, file: Path, faulty: str) -> None:
    """The constants that differ, and those made of them, wherever a module has them."""
    module = next(each for each in _modules() if each.__file__ == str(file))
    changed = _changed(before.body, after.body)
    if len(changed) != len(before.body):
        raise NotSwappable("statements come or go")
    names = set[str]()
    for node, differs in zip(before.body, changed, strict=True):
        if differs and not isinstance(node, ast.Assign | ast.AnnAssign):
            raise NotSwappable("it is no constant")
        if isinstance(node, ast.Assign | ast.AnnAssign) and (differs or names & _named(node)):
            names |= _assigned(node)
    fresh = {"__name__": module.__name__, "__package__": module.__package__, "__file__": str(file)}
    try:
        exec(compile(faulty, str(file), "exec"), fresh)  # noqa: S102 - our own text, with a line less
    except Exception as error:
        raise NotSwappable(str(error)) from error
    for name in names:
        was = vars(module)[name]
        for each in _modules():
            if vars(each).get(name) is was:
                setattr(each, name, fresh.get(name))


def _modules() -> Iterator[ModuleType]:
    for each in list(sys.modules.values()):
        if isinstance(each, ModuleType) and getattr(each, "__file__", None):
            yield each


def _changed(before: Sequence[ast.AST], after: Sequence[ast.AST]) -> list[bool]:
    if len(before) != len(after):
        return []
    return [ast.dump(old) != ast.dump(new) for old, new in zip(before, after, strict=True)]


def _functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Those of the module and of its classes, as they are written."""
    found: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node)
        elif isinstance(node, ast.stmt):
            found += _functions(node)
    return found


def _decorators(tree: ast.AST) -> list[str]:
    return [ast.dump(each) for function in _functions(tree) for each in function.decorator_list]


def _codes(code: CodeType) -> list[CodeType]:
    """The same functions, compiled."""
    found: list[CodeType] = []
    for each in code.co_consts:
        if not isinstance(each, CodeType) or each.co_name.startswith("<"):
            continue
        found += [each] if each.co_flags & inspect.CO_OPTIMIZED else _codes(each)
    return found


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _named(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _assigned(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {each.id for each in targets if isinstance(each, ast.Name)}
