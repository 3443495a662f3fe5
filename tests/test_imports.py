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
    ("errors", "cores"),
    ("ranges", "keys", "tree", "augment", "files"),
    ("values", "losses", "metrics", "data", "store"),
    ("kernels",),
    ("step",),
    ("phase",),
    ("part", "local", "models"),
    ("parts",),
    ("method",),
    ("slots", "adapt"),
    ("algorithm", "methods"),
    ("gate", "privacy"),
    ("engines", "config"),
)
RANK = {room: rank for rank, rooms in enumerate(LEVELS) for room in rooms}
EDGE = len(LEVELS)  # experiment, report, cli and whatever else stands on all of this
PICKLE_READER = "data.cifar"
FOREIGN_CODE = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
FOREIGN_CALLS = {
    *("eval", "exec", "compile", "__import__", "builtins.eval", "builtins.exec"),
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load"),
}


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


@cache
def own_imports(name: str, functions: bool = True) -> frozenset[str]:
    """The modules of the package that a module imports."""
    found = imports(modules()[name], functions)
    wanted = {target.removeprefix("fedskew.") for target in found if target.startswith("fedskew.")}
    return frozenset(target for target in wanted if target in modules()) - {name}


def room(name: str) -> str:
    first = name.split(".")[0]
    # It reads the engines' feed and every engine calls it: it belongs to them.
    return "engines" if first == "examine" else first


def dotted(node: ast.AST) -> str:
    """`a.b.c` as text; what is no plain name has none."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    return ((dotted(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call))


def dangers(tree: ast.AST) -> Iterator[str]:
    """What in a module could run code that somebody else wrote."""
    imported = set(imports(tree))
    yield from ({target.split(".")[0] for target in imported} & FOREIGN_CODE) | (imported & FOREIGN_CALLS)
    for function, call in calls(tree):
        options = {option.arg: ast.unparse(option.value) for option in call.keywords}
        if function in FOREIGN_CALLS or (function == "torch.load" and options.get("weights_only") != "True"):
            yield f"line {call.lineno}: {function}"
        for risky in ("shell", "allow_pickle"):
            if options.get(risky, "False") != "False":
                yield f"line {call.lineno}: {risky}"


def bad_habits(tree: ast.AST, where: str) -> Iterator[str]:
    """hasattr, super() (but a torch module cannot be made without), **kwargs, and print but on the command line."""
    excused = {"models": "super", "cli": "print"}.get(where)
    for function, call in calls(tree):
        if function in {"hasattr", "super", "print"} - {excused}:
            yield f"line {call.lineno}: {function}"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.args.kwarg is not None:
            yield f"line {node.lineno}: **{node.args.kwarg.arg}"


def circle(graph: dict[str, set[str]]) -> str:
    """A circle of imports, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " -> ".join(error.args[1])
    return ""


def test_the_rooms_exist() -> None:
    """A room that was renamed would make the next test pass for nothing."""
    assert set(RANK) <= {room(name) for name in modules()}


def test_imports_go_one_way() -> None:
    upwards = [
        f"{name} imports {target}"
        for name in modules()
        for target in own_imports(name)
        if room(name) in RANK
        and room(target) != room(name)
        and RANK.get(room(target), EDGE) >= RANK[room(name)]
    ]
    assert not upwards


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


def test_nothing_runs_foreign_code() -> None:
    found = {name: sorted(dangers(tree)) for name, tree in modules().items()}
    assert {name: what for name, what in found.items() if what} == {PICKLE_READER: ["pickle"]}


def test_rules_of_the_house() -> None:
    found = {name: sorted(bad_habits(tree, room(name))) for name, tree in modules().items()}
    assert not {name: what for name, what in found.items() if what}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import a.b", {"a.b"}),
        ("from a import b", {"a", "a.b"}),
        ("def f():\n    import late", {"late"}),
        ("if TYPE_CHECKING:\n    import never", set()),
    ],
)
def test_imports_are_seen(code: str, found: set[str]) -> None:
    assert set(imports(ast.parse(code))) == found


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "def f():\n    from dill import load",
        "eval('1')",
        "os.system('ls')",
        "from os import system as go",
        "yaml.load(text)",
        "subprocess.getoutput('ls')",
        "subprocess.run('ls', shell=True)",
        "torch.load('x')",
        "np.load('x', allow_pickle=True)",
    ],
)
def test_dangers_are_seen(code: str) -> None:
    assert list(dangers(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["hasattr(x, 'y')", "super().__init__()", "print(1)", "def f(**kwargs): pass"]
)
def test_bad_habits_are_seen(code: str) -> None:
    assert list(bad_habits(ast.parse(code), "algorithm"))


def test_a_circle_is_seen() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert not circle({"a": {"b"}, "b": {"c"}, "c": set()})
