"""Docstrings say what a caller must know: which errors a public function raises, and the shapes of arrays."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

import monitor

ROOT = Path(monitor.__file__).parent
Function = ast.FunctionDef | ast.AsyncFunctionDef
#: Decorators of functions that only a framework calls: their docstrings are a command's help or a page of the OpenAPI.
CALLED_BY_A_FRAMEWORK = {"command", "callback", "get", "post", "put", "delete"}


def has_reader(function: Function) -> bool:
    """Whether a framework calls the function, and shows its docstring to people."""
    made = [d.func for d in function.decorator_list if isinstance(d, ast.Call)]
    return any(isinstance(d, ast.Attribute) and d.attr in CALLED_BY_A_FRAMEWORK for d in made)


def public(body: list[ast.stmt], name: str) -> Iterator[tuple[str, Function, str]]:
    """The public functions and methods of a body, with their names and the docstring of their class."""
    for node in body:
        if isinstance(node, Function) and not node.name.startswith("_") and not has_reader(node):
            yield f"{name}.{node.name}", node, ""
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for part in node.body:
                if isinstance(part, Function) and (not part.name.startswith("_") or part.name == "__init__"):
                    within = ast.get_docstring(node) or "" if part.name == "__init__" else ""
                    yield f"{name}.{node.name}.{part.name}", part, within


def raised(function: Function) -> set[str]:
    """The names of the errors, and of the functions that make them, which a function's own lines raise."""
    found, todo = set(), list[ast.AST](function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, Function | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            found.add(last(ast.unparse(node.exc.func)))
        todo += ast.iter_child_nodes(node)
    return found


def last(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def parents() -> dict[str, set[str]]:
    """Every error of the package and of Python by name with its parents, every function with what it returns."""
    found = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(last(ast.unparse(base)) for base in node.bases)
            elif isinstance(node, Function) and node.returns is not None:
                found.setdefault(node.name, set()).add(last(ast.unparse(node.returns)))
    for name, error in vars(builtins).items():
        if isinstance(error, type) and issubclass(error, Exception):
            found.setdefault(name, set()).update(parent.__name__ for parent in error.__mro__)
    return found


def names_of(error: str, bases: dict[str, set[str]]) -> set[str]:
    """The error's own name and those of the errors it is a kind of."""
    found, todo = set[str](), [error]
    while todo:
        name = todo.pop()
        if name not in found and name not in ("Exception", "BaseException", "object"):
            found.add(name)
            todo += bases.get(name, ())
    return found


def silent(path: Path, bases: dict[str, set[str]]) -> Iterator[str]:
    """What the public functions of a module raise without saying so."""
    for name, function, within in public(ast.parse(path.read_text("utf-8")).body, path.relative_to(ROOT).as_posix()):
        said = set(re.findall(r"\w+", within + (ast.get_docstring(function) or "")))
        yield from (f"{name}: {error}" for error in sorted(raised(function)) if not names_of(error, bases) & said)


def test_every_public_function_that_raises_says_so() -> None:
    bases = parents()
    assert [each for path in sorted(ROOT.rglob("*.py")) for each in silent(path, bases)] == []


def test_it_sees_what_is_raised_and_what_is_said() -> None:
    text = """
class Odd(ValueError): ...
def odd() -> Odd: ...
def silent(): raise Odd("x")
def made(): raise odd()
def says(): "Raises ValueError."; raise Odd("x")
def _private(): raise Odd("x")
def inner():
    def nested(): raise Odd("x")
def again(error): raise error
class Public:
    "Raises KeyError."
    def __init__(self): raise KeyError("x")
    def method(self): raise KeyError("x")
"""
    names = {"Odd": {"ValueError"}, "odd": {"Odd"}}
    found = [
        f"{n}: {e}"
        for n, f, within in public(ast.parse(text).body, "m")
        for e in raised(f)
        if not names_of(e, names) & set(re.findall(r"\w+", within + (ast.get_docstring(f) or "")))
    ]
    assert found == ["m.silent: Odd", "m.made: odd", "m.Public.method: KeyError"]


ARRAY = re.compile(r"\b(?:Floats|Ints|Bools|NDArray|ndarray)\b")
SHAPE = re.compile(r"\b[Ss]hapes?\b|\bbroadcast\b|\((?:[A-Z]|\d|\.\.\.)(?:, ?(?:[A-Z]|\d))*,?\)")


def takes_arrays(node: Function | ast.ClassDef) -> bool:
    """Whether a function takes or gives an array, or a class keeps one."""
    if isinstance(node, ast.ClassDef):
        kinds = [each.annotation for each in node.body if isinstance(each, ast.AnnAssign)]
    else:
        given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        kinds = [each for each in (*(arg.annotation for arg in given), node.returns) if each is not None]
    return any(ARRAY.search(text) for text in map(ast.unparse, kinds) if not text.startswith("Callable"))


def silent_of_shapes(path: Path) -> Iterator[str]:
    """The public classes and functions of a module that take arrays and do not say of which shape."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            of_class = (ast.get_docstring(node) or "") if isinstance(node, ast.ClassDef) else ""
            methods = [part for part in node.body if isinstance(part, Function) and not part.name.startswith("_")]
            for each in (node, *(methods if of_class else ())):
                if takes_arrays(each) and not SHAPE.search(of_class + (ast.get_docstring(each) or "")):
                    yield f"{path.relative_to(ROOT)}:{each.lineno} {each.name}"


def test_what_takes_arrays_gives_their_shapes() -> None:
    rooms = ("core", "inference", "metrics")
    assert [
        each for room in rooms for path in sorted((ROOT / room).rglob("*.py")) for each in silent_of_shapes(path)
    ] == []
