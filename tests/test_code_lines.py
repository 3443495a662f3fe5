"""How little a method costs: code lines per preset, shown and not forced."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import fedskew
from fedskew import methods
from fedskew.method import Method

ROOT = Path(fedskew.__file__).parent
PARTS = [*sorted((ROOT / "parts").glob("*.py")), ROOT / "step.py", ROOT / "models" / "batchnorm.py"]
FORMULAS = sorted((ROOT / "losses").glob("*.py"))


def code_lines(node: ast.AST) -> int:
    """Lines with code: no blank lines, comments or docstrings."""
    lines = {line for inner in ast.walk(node) for line in _lines_of(inner)}
    for inner in ast.walk(node):
        if (
            isinstance(inner, ast.Expr)
            and isinstance(inner.value, ast.Constant)
            and isinstance(inner.value.value, str)
        ):
            lines -= set(range(inner.lineno, (inner.end_lineno or inner.lineno) + 1))
    return len(lines)


def _lines_of(node: ast.AST) -> Iterator[int]:
    if isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword | ast.alias):
        yield node.lineno
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.end_lineno or node.lineno


def definitions(files: list[Path]) -> dict[str, ast.AST]:
    """Every class and function at the top of these modules."""
    bodies = [node for file in files for node in ast.parse(file.read_text(encoding="utf-8")).body]
    return {node.name: node for node in bodies if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def reached(name: str, known: dict[str, ast.AST]) -> set[str]:
    """What a definition uses, directly or not, itself included."""
    found, open_names = set(), [name]
    while open_names:
        current = open_names.pop()
        if current in known and current not in found:
            found.add(current)
            for node in ast.walk(known[current]):
                if isinstance(node, ast.Name):
                    open_names.append(node.id)
                elif (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == "losses"
                ):
                    open_names.append(node.attr)
    return found


def own_parts(method: Method) -> set[str]:
    """The classes of the parts that FedAvg does not have."""
    slots = [field.name for field in fields(Method) if field.name not in ("terms", "personal", "overall")]
    pairs = [(getattr(method, slot), getattr(Method(), slot)) for slot in slots]
    changed = [mine for mine, default in pairs if type(mine) is not type(default)]
    return {type(part).__name__ for part in (*method.terms, *changed)}


def lines_per_preset() -> dict[str, tuple[int, int, int]]:
    """(lines of the preset, of its parts and helpers that no other part uses, of its loss formulas)."""
    parts, formulas = definitions(PARTS), definitions(FORMULAS)
    everything = parts | formulas
    classes = {name for method in methods.presets().values() for name in own_parts(method)}
    users = {name: {c for c in classes if name in reached(c, everything)} for name in everything}
    source = ast.parse(inspect.getsource(methods))
    presets = {
        n.targets[0].id: n
        for n in source.body
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
    }
    found = {}
    for name, method in methods.presets().items():
        mine = own_parts(method)
        used = {n for part in mine for n in reached(part, everything) if users[n] <= mine}
        found[name] = (
            code_lines(presets[name.replace("-", "_")]),
            sum(code_lines(parts[n]) for n in used if n in parts),
            sum(code_lines(formulas[n]) for n in used if n in formulas),
        )
    return found


def test_lines_of_every_preset(capsys: pytest.CaptureFixture[str]) -> None:
    found = lines_per_preset()
    with capsys.disabled():
        print(f"\n{'preset':20}{'preset':>8}{'parts':>8}{'formula':>8}  code lines nobody else uses")
        for name, (preset, parts, formula) in found.items():
            print(f"{name:20}{preset:8}{parts:8}{formula:8}")
    assert found["fedavg"] == (1, 0, 0)
    assert all(parts > 0 for name, (_, parts, _) in found.items() if name != "fedavg")
    assert found["fedprox"][1] < found["scaffold"][1] < found["grpfed"][1]
