"""Nothing in ckcnn but `ckcnn.compat` uses what is private to another library."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(ROOT.glob("src/ckcnn/**/*.py")) + sorted(ROOT.glob("datamodules/*.py"))
_DOCUMENTED = {"_replace", "_asdict", "_fields", "_make", "_exit"}  # of named tuples and of os
_DOCUMENTED |= {"_fit", "_predict", "_predict_proba"}  # what sktime's extension template says to write


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in _DOCUMENTED and name != "_"


def private_uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines that reach into an object other than ``self`` or ``cls``, or import what is private to a package."""
    for node in ast.walk(tree):
        if any(is_private(name) for name in foreign_names(node)):
            yield node.lineno, ast.unparse(node)  # type: ignore[attr-defined]


def foreign_names(node: ast.AST) -> list[str]:
    """What a node takes from somewhere else, by name."""
    match node:
        case ast.Attribute(ast.Name("self" | "cls")):
            return []
        case ast.Attribute(attr=name):
            return [name]
        case ast.ImportFrom(module=module, names=aliases) if not (module or "").startswith("ckcnn"):
            return [*(module or "").split("."), *(alias.name for alias in aliases)]
        case ast.Import(aliases):
            return [part for alias in aliases for part in alias.name.split(".")]
        case ast.Call(ast.Name("getattr" | "setattr" | "hasattr" | "delattr"), [_, ast.Constant(name), *_]):
            return [str(name)]
        case ast.Call(keywords=keywords):
            return [keyword.arg for keyword in keywords if keyword.arg]
    return []


def inherited_uses(kind: type, tree: ast.ClassDef, is_own: Callable[[type], bool]) -> Iterator[str]:
    """Private names of a class that are those of a class of another library: overridden, or used through ``self``."""
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
    }
    used |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    own: set[str] = set()
    for base in filter(is_own, kind.__mro__):
        source = ast.parse(inspect.getsource(base))
        own |= {*vars(base), *vars(base).get("__annotations__", ())}
        own |= {node.attr for node in ast.walk(source) if isinstance(node, ast.Attribute) and is_stored(node)}
    foreign = {name for base in kind.__mro__ if not is_own(base) for name in vars(base)}
    yield from sorted(name for name in used if is_private(name) and (name in foreign or name not in own))


def is_stored(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_private_parts_of_others_are_used_in_compat_alone(path: Path) -> None:
    if "compat" in path.parts:
        return
    advice = "use a public way, or put it into ckcnn.compat with a canary"
    tree = ast.parse(path.read_text())
    for line, text in private_uses(tree):
        pytest.fail(f"{path}:{line} uses {text}, which is private; {advice}")
    if not (classes := [node for node in tree.body if isinstance(node, ast.ClassDef)]):
        return
    inside = path.relative_to(ROOT / "src" if "src" in path.relative_to(ROOT).parts else ROOT).with_suffix("").parts
    module = importlib.import_module(".".join(inside if inside[0] == "ckcnn" else ("ckcnn", *inside)))
    for node in classes:
        for used in inherited_uses(getattr(module, node.name), node, lambda base: base.__module__.startswith("ckcnn")):
            pytest.fail(f"{path}: {node.name} uses {used}, which is private to a base class; {advice}")


@pytest.mark.parametrize(
    "text",
    [
        "trainer._signal_connector.received_sigterm = True",
        "from optuna.storages._heartbeat import BaseHeartbeat",
        "from optuna.storages import _CachedStorage",
        "import optuna._callbacks",
        "vars(metric).update(_update_count=1)",
        "getattr(study, '_storage')",
        "known = [*self.parser._option_string_actions]",
    ],
)
def test_a_new_private_use_is_found(text: str) -> None:
    assert list(private_uses(ast.parse(text)))


class _Foreign:
    def _hook(self) -> None: ...


class _Overrides(_Foreign):
    def _hook(self) -> None: ...


class _Uses(_Foreign):
    def run(self) -> None:
        self._hook()


class _Reads(_Foreign):
    def run(self) -> Any:
        return self._made_by_the_constructor  # type: ignore[attr-defined]


class _Clean(_Foreign):
    def __init__(self) -> None:
        self._own = 1

    def run(self) -> int:
        return self._own


@pytest.mark.parametrize(
    ("kind", "found"),
    [(_Overrides, ["_hook"]), (_Uses, ["_hook"]), (_Reads, ["_made_by_the_constructor"]), (_Clean, [])],
)
def test_a_private_part_of_a_base_class_is_found(kind: type, found: list[str]) -> None:
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    assert list(inherited_uses(kind, tree, lambda base: base not in (object, _Foreign))) == found
