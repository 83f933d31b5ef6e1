"""Checks that the modules of the Python package do not import each other in a cycle."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "python" / "karez"


def read_modules(package):
    """The source of each module by its full name, and the names of the packages among them."""
    sources, packages = {}, set()
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
            packages.add(".".join(parts))
        sources[".".join(parts)] = path.read_text()
    return sources, packages


def walk_runtime_code(node):
    """All nodes below this one, except the bodies of `if TYPE_CHECKING`, which only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            negated = isinstance(child.test, ast.UnaryOp)
            for statement in child.body if negated else child.orelse:
                yield statement
                yield from walk_runtime_code(statement)
        else:
            yield child
            yield from walk_runtime_code(child)


def find_imports(name, sources, packages):
    """The modules among `sources` that a module imports, at module level or inside functions."""
    package = name if name in packages else name.rpartition(".")[0]
    imported = set()
    for node in walk_runtime_code(ast.parse(sources[name])):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            parents = parents[: len(parents) - node.level + 1] if node.level else []
            base = ".".join(parents + ([node.module] if node.module else []))
            for alias in node.names:
                member = f"{base}.{alias.name}"
                if alias.name != "_core":  # the compiled module, which imports no module of the package
                    imported.add(member if member in sources else base)
    return imported & set(sources) - {name}


def find_cycles(sources, packages):
    """The modules that import themselves through other modules."""
    reachable = {name: find_imports(name, sources, packages) for name in sources}
    changed = True
    while changed:
        changed = False
        for targets in reachable.values():
            size = len(targets)
            for target in list(targets):
                targets |= reachable[target]
            changed = changed or len(targets) != size
    return sorted(name for name, targets in reachable.items() if name in targets)


def test_no_module_of_the_package_is_in_an_import_cycle():
    sources, packages = read_modules(PACKAGE)
    assert len(sources) > 60 and packages == {"karez", "karez.data", "karez.nn"}
    assert sum(len(find_imports(name, sources, packages)) for name in sources) > 200, "the test must find the imports"
    assert find_cycles(sources, packages) == []


@pytest.mark.parametrize(
    ("a", "b", "cycle"),
    [
        ("from .b import f", "from .a import g", ["p.a", "p.b"]),
        ("from . import b", "import p.a", ["p.a", "p.b"]),
        ("def f():\n    from .b import g", "class C:\n    def f(self):\n        import p.a as q", ["p.a", "p.b"]),
        ("from .sub.c import f", "", ["p.a", "p.sub.c"]),
        ("from p.b import f", "if TYPE_CHECKING:\n    from .a import g", []),
        ("from p.b import f", "if not typing.TYPE_CHECKING:\n    from .a import g", ["p.a", "p.b"]),
        ("from p.b import f", "if typing.TYPE_CHECKING:\n    x = 1\nelse:\n    from .a import g", ["p.a", "p.b"]),
        ("from . import _core", "from ._core import f", []),
        ("from .b import f", "import other.a", []),
    ],
)
def test_a_cycle_is_found_in_every_form_of_import(a, b, cycle):
    sources = {"p": "from . import a, b", "p.a": a, "p.b": b, "p.sub": "", "p.sub.c": "from ..a import h"}
    assert find_cycles(sources, {"p", "p.sub"}) == cycle
