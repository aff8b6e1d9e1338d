"""The rules of the layers, read off the sources: who imports whom, where LLVM and Triton appear, how long files get."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 400

# A layer may import itself and the layers named here; eagerjit's own modules are those outside its two links.
LAYERS = {"eagerjit": ("eagerjit", "compiler", "runtime"), "compiler": ("compiler", "runtime"), "runtime": ("runtime",)}


def sources(layer: str) -> list[Path]:
    """Return the layer's Python files; the links from eagerjit/ to the other two are not followed."""
    links = {ROOT / "eagerjit" / "compiler", ROOT / "eagerjit" / "runtime"}
    return sorted(path for path in (ROOT / layer).rglob("*.py") if not links & set(path.parents))


FILES = [path for layer in LAYERS for path in sources(layer)]


class Source(NamedTuple):
    """What the rules ask of a file. Its tree is not kept: that is more objects than all tests are."""

    lines: int
    imports: set[str]
    docstring: str | None


@cache
def source(path: Path) -> Source:
    text = path.read_text()
    tree = ast.parse(text)
    return Source(len(text.splitlines()), imports(tree), ast.get_docstring(tree))


def place(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(tree: ast.Module) -> set[str]:
    """Return every dotted name that an import statement anywhere in this source asks for."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def layer_of(name: str) -> str | None:
    """Return the layer a dotted name lies in, None outside the project."""
    parts = name.split(".")
    if parts[0] != "eagerjit":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in ("compiler", "runtime") else "eagerjit"


def asks_for(names: set[str], module: str) -> bool:
    return any(name == module or name.startswith(module + ".") for name in names)


def test_import_reader_sees_every_form() -> None:
    text = "import a.b as c\nfrom d import e, f\ndef g():\n    from .h import i\n"
    assert imports(ast.parse(text)) == {"a.b", "d.e", "d.f", ".h.i"}
    assert layer_of("eagerjit.runtime.cpu") == "runtime"
    assert layer_of("eagerjit.nn") == layer_of("eagerjit") == "eagerjit"
    assert layer_of("numpy") is None


def test_imports_point_downward() -> None:
    for path in FILES:
        allowed, names = LAYERS[path.relative_to(ROOT).parts[0]], source(path).imports
        upward = sorted(name for name in names if layer_of(name) not in (None, *allowed))
        assert not upward, place(path)
        relative = sorted(name for name in names if name.startswith("."))
        assert not relative, f"{place(path)}: imports are absolute"
        plain = sorted(name for name in names if name.split(".")[0] in ("compiler", "runtime"))
        assert not plain, f"{place(path)}: the layers' names begin with eagerjit"


@cache
def exists(name: str) -> bool:
    """Whether `eagerjit.a.b` is a module, or something that the module `eagerjit.a` may define."""
    path = ROOT.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    home = path.parent / "__init__.py" if path.parent.is_dir() else path.parent.with_suffix(".py")
    text = home.read_text() if home.exists() else ""
    return "def __getattr__" in text or re.search(rf"\b{re.escape(path.name)}\b", text) is not None


def test_missing_modules_are_seen() -> None:
    assert exists("eagerjit.runtime.cpu") and exists("eagerjit.runtime.cpu.lock") and exists("eagerjit.nn")
    assert not exists("eagerjit.runtime.gone") and not exists("eagerjit.gone.cpu")


def test_imports_name_what_there_is() -> None:
    # Those inside functions too, which nothing else asks for before somebody calls them.
    for path in FILES:
        names = source(path).imports
        assert not [name for name in names if layer_of(name) is not None and not exists(name)], place(path)


def test_llvm_stays_in_its_places() -> None:
    users = [path.relative_to(ROOT) for path in FILES if asks_for(source(path).imports, "llvmlite.binding")]
    assert set(users) <= {Path("runtime/cpu.py")}
    makers = [path.relative_to(ROOT) for path in FILES if asks_for(source(path).imports, "llvmlite.ir")]
    assert not [path for path in makers if not path.is_relative_to("compiler/codegen")]


def test_triton_stays_in_its_places() -> None:
    users = {path.relative_to(ROOT) for path in FILES if asks_for(source(path).imports, "triton")}
    assert users <= {Path("runtime/gpu/compiler.py"), Path("runtime/gpu/interpreter.py")}


def test_no_framework_is_a_dependency() -> None:
    frameworks = ("torch", "jax", "numba", "scipy", "sklearn")
    for path in FILES:
        assert not [name for name in source(path).imports if name.split(".")[0] in frameworks], place(path)


def test_module_says_what_it_is() -> None:
    assert not [place(path) for path in FILES if not source(path).docstring]


def test_file_is_short_enough_to_read() -> None:
    assert not [place(path) for path in FILES if source(path).lines > LONGEST]


@pytest.mark.parametrize("layer", ["compiler", "runtime"])
def test_layers_have_one_name(layer: str) -> None:
    # Inside the checkout the folder is in reach under its plain name, and refuses it.
    inside = subprocess.run([sys.executable, "-c", f"import {layer}"], cwd=ROOT, capture_output=True, text=True)
    assert f"import eagerjit.{layer} instead" in inside.stderr
    # Away from the checkout an installed eagerjit brings no such name.
    code = f"import importlib.util as u; s = u.find_spec({layer!r}); print(s.origin if s else None)"
    away = subprocess.run([sys.executable, "-I", "-c", code], cwd="/", capture_output=True, text=True, check=True)
    assert str(ROOT) not in away.stdout


def test_links_lead_to_the_layers() -> None:
    for layer in ("compiler", "runtime"):
        assert (ROOT / "eagerjit" / layer).readlink() == Path("..") / layer


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/internals.md"])
def test_pages_name_files_that_there_are(page: str) -> None:
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)", (ROOT / page).read_text()))
    places = [ROOT, *(ROOT / layer for layer in LAYERS)]
    assert named
    assert not [name for name in sorted(named) if not any((place / name).exists() for place in places)]


@pytest.mark.parametrize("path", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]), ids=lambda path: path.name)
def test_pages_link_to_what_there_is(path: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", path.read_text()) if "://" not in link]
    assert not [link for link in links if not (path.parent / link).exists()]


def test_every_setting_of_the_environment_is_described() -> None:
    read = {name for path in FILES for name in re.findall(r"EAGERJIT_[A-Z_]+", path.read_text())}
    assert read == set(re.findall(r"EAGERJIT_[A-Z_]+", (ROOT / "ARCHITECTURE.md").read_text()))
