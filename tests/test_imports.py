"""Imports go one way, in no circle; nothing that runs foreign code; the rules of the house."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import fedskew

ROOT = Path(fedskew.__file__).parent
LEVELS = (
    ("errors", "keys", "tree", "augment"),
    ("values", "losses", "metrics", "data", "store"),
    ("kernels",),
    ("step",),
    ("phase",),
    ("part", "local", "models"),
    ("parts",),
    ("method",),
    ("slots", "adapt"),
    ("algorithm", "methods"),
    ("gate",),
    ("engines", "config"),
)
RANK = {room: rank for rank, rooms in enumerate(LEVELS) for room in rooms}
EDGE = len(LEVELS)  # experiment, report, cli and whatever else stands on all of this
PICKLE_READER = "data.cifar"
FOREIGN_CODE = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package, by its name below `fedskew`."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


def statements(node: ast.AST, functions: bool = True) -> Iterator[ast.AST]:
    """All nodes below, except what only a type checker reads, and on demand without the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.FunctionDef) and not functions:
            continue
        yield child
        yield from statements(child, functions)


def imports(tree: ast.AST, functions: bool = True) -> Iterator[str]:
    """Full names of what is imported; from a package also the names taken from it."""
    for node in statements(tree, functions):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(name: str, functions: bool = True) -> set[str]:
    """The modules of the package that a module imports."""
    found = imports(modules()[name], functions)
    wanted = {target.removeprefix("fedskew.") for target in found if target.startswith("fedskew.")}
    return {target for target in wanted if target in modules()} - {name}


def room(name: str) -> str:
    first = name.split(".")[0]
    # It reads the engines' feed and every engine calls it: it belongs to them.
    return "engines" if first == "examine" else first


def calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_the_rooms_exist() -> None:
    """A room that was renamed would make the next test pass for nothing."""
    assert set(RANK) <= {room(name) for name in modules()}


@pytest.mark.parametrize("name", [name for name in modules() if name])
def test_imports_go_one_way(name: str) -> None:
    mine = RANK.get(room(name), EDGE)
    upwards = {
        target
        for target in own_imports(name)
        if room(target) != room(name) and not (RANK.get(room(target), EDGE) < mine or mine == EDGE)
    }
    assert not upwards, f"{name} (level {mine}) imports {sorted(upwards)}"


def circle(graph: dict[str, set[str]]) -> str:
    """A circle of imports, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " -> ".join(error.args[1])
    return ""


def test_no_circle_of_modules() -> None:
    """At the time of import; a function may import late what itself needs the module, as commands need the app."""
    # Importing a module always runs its package first, so that one is no import of its own.
    graph = {
        name: {target for target in own_imports(name, functions=False) if not name.startswith(f"{target}.")}
        for name in modules()
    }
    assert not circle(graph)


def test_no_circle_of_rooms() -> None:
    graph: dict[str, set[str]] = {room(name): set() for name in modules()}
    for name in modules():
        graph[room(name)] |= {room(target) for target in own_imports(name)} - {room(name)}
    assert not circle(graph)


def test_a_circle_is_seen() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert not circle({"a": {"b"}, "b": {"c"}, "c": set()})


@pytest.mark.parametrize("name", modules())
def test_nothing_runs_foreign_code(name: str) -> None:
    taken = {target.split(".")[0] for target in imports(modules()[name])} & FOREIGN_CODE
    assert not taken or name == PICKLE_READER, f"{name} imports {sorted(taken)}"
    for function, call in calls(name):
        options = {option.arg: ast.unparse(option.value) for option in call.keywords}
        where = f"{name}:{call.lineno}: {function}"
        assert function not in {
            "eval",
            "exec",
            "compile",
            "__import__",
            "os.system",
            "os.popen",
            "yaml.load",
        }, where
        assert options.get("shell", "False") == "False", where
        assert options.get("allow_pickle", "False") == "False", where
        assert function != "torch.load" or options.get("weights_only") == "True", where


@pytest.mark.parametrize("name", modules())
def test_rules_of_the_house(name: str) -> None:
    """No hasattr, no super(), no **kwargs in a signature; only the command line prints."""
    for function, call in calls(name):
        # A torch module cannot be made without super().
        assert function not in {"hasattr", "super"} or room(name) == "models", (
            f"{name}:{call.lineno}: {function}"
        )
        assert function != "print" or room(name) == "cli", f"{name}:{call.lineno} prints"
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.FunctionDef):
            assert node.args.kwarg is None, f"{name}:{node.lineno}: **{node.args.kwarg.arg}"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import a.b", {"a.b"}),
        ("from a import b", {"a", "a.b"}),
        ("def f():\n    import late", {"late"}),
        ("if TYPE_CHECKING:\n    import never", set()),
    ],
)
def test_the_reader_sees_imports(code: str, found: set[str]) -> None:
    assert set(imports(ast.parse(code))) == found
