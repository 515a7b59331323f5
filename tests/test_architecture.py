"""The walls of docs/architecture.md: who imports whom, one set of defaults, and that importing does nothing."""

from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from gpen_core.options import BatchOptions, OutputOptions, RestoreOptions, RuntimeOptions

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "gpen_core").rglob("*.py"))
PAGE = sorted((ROOT / "page").glob("*.py"))
ALL_CODE = [*MODULES, *PAGE, ROOT / "app.py", ROOT / "inference_gpen.py"]

BASE = {"types", "errors", "options", "version", "cache_dir"}
MAY_IMPORT = {
    "types": set(),
    "errors": set(),
    "version": set(),
    "cache_dir": set(),
    "options": {"errors"},
    "photo": {*BASE, "photo"},
    "faces": {*BASE, "photo", "faces", "models"},
    "models": {*BASE, "cache_dir", "models"},
    "runtime": {*BASE, "cache_dir", "models", "runtime"},
    "result": {*BASE, "photo", "faces"},
    "gate": {*BASE, "faces", "models", "runtime"},
    "clock": {*BASE},
    "notes": {*BASE, "photo", "faces", "runtime", "tasks", "prepared", "result", "whole"},
    "tasks": {*BASE, "photo"},
    "loading": {*BASE, "faces", "models", "runtime", "tasks"},
    "whole": {*BASE, "photo", "runtime"},
    "inventory": {*BASE, "faces", "models", "runtime"},
    "restorer": {
        *BASE,
        *(
            "photo",
            "faces",
            "models",
            "runtime",
            "gate",
            "loading",
            "tasks",
            "whole",
            "clock",
            "notes",
            "prepared",
            "result",
        ),
    },
    "prepared": {*BASE, "photo", "faces", "runtime", "tasks", "whole", "clock"},
    "folders": {*BASE, "photo"},
    "manifest": {*BASE, "folders", "photo"},
    "crops": {*BASE, "folders", "photo", "faces", "result"},
    "batch": {*BASE, "folders", "manifest", "crops", "photo", "prepared", "restorer", "result"},
    "archive": {*BASE, "folders", "batch", "photo", "restorer"},
    "evaluation": {*BASE, "photo", "faces", "models", "runtime", "restorer", "result", "folders", "evaluation"},
    "cli": {*BASE, "restorer", "tasks", "evaluation", "cli_photos", "cli_weights", "cli_export", "cli_batch"},
    "cli_batch": {*BASE, "cluster", "cli_weights"},
    "cluster": {*BASE, "folders", "manifest", "batch", "photo", "prepared", "restorer", "result", "runtime", "cluster"},
    "cli_export": {*BASE, "models", "runtime", "tasks", "cli_weights"},
    "cli_photos": {*BASE, "folders", "crops", "batch", "photo", "restorer", "cli_weights"},
    "cli_weights": {*BASE, "models", "inventory"},
    "__main__": {"cli"},
    "app": {*BASE, "models"},
    "page": {
        *BASE,
        "archive",
        "crops",
        "evaluation",
        "folders",
        "models",
        "photo",
        "restorer",
        "result",
        "runtime",
        "tasks",
    },
}
USE_GRADIO = (
    "api",
    "batch_api",
    "batch_tab",
    "brush",
    "check_tab",
    "controls",
    "examples",
    "restore_tab",
    "result_view",
    "site",
    "theme",
)
ONLY_IN = {
    "gradio": {"app.py", *(f"page/{name}.py" for name in USE_GRADIO)},
    "modelscope_hub": {"gpen_core/models/transfer.py"},
    "requests": {"gpen_core/models/transfer.py"},
    "modelscope": set(),
    "facexlib": {"gpen_core/faces/detect.py", "gpen_core/faces/parse.py"},
    "retinaface": {"gpen_core/faces/detect.py"},
    "basicsr": set(),
    "spaces": {"page/zero_gpu.py"},
    "pyiqa": {"gpen_core/evaluation/metrics.py"},
    "skimage": {"gpen_core/evaluation/metrics.py"},
    "argparse": {"gpen_core/cli.py", "gpen_core/cli_weights.py", "gpen_core/cli_export.py", "app.py"},
}


def imports_of(path: Path) -> set[str]:
    """Full dotted names a file imports, at its top or inside functions; names for type checkers only are left out."""
    found: set[str] = set()

    class Visitor(ast.NodeVisitor):
        def visit_If(self, node):
            if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
                self.generic_visit(node)

        def visit_Import(self, node):
            found.update(alias.name for alias in node.names)

        def visit_ImportFrom(self, node):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)

    Visitor().visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def room_of(name: str) -> str:
    """`gpen_core.photo.io` -> `photo`."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("path", [*MODULES, *PAGE, ROOT / "app.py"], ids=lambda path: str(path.relative_to(ROOT)))
def test_arrows_run_one_way(path):
    relative = path.relative_to(ROOT / "gpen_core" if path in MODULES else ROOT)
    room = relative.parts[0].removesuffix(".py")
    if room == "__init__":
        return
    used = {room_of(name) for name in imports_of(path) if name.startswith("gpen_core.")}
    assert used <= MAY_IMPORT[room], f"{relative} imports {sorted(used - MAY_IMPORT[room])}"


def test_only_the_torch_adapters_of_faces_read_weights():
    for path in (ROOT / "gpen_core" / "faces").glob("*.py"):
        models = {name for name in imports_of(path) if name.startswith("gpen_core.models")}
        assert models <= ({"gpen_core.models.checkpoint"} if path.name in ("detect.py", "parse.py") else set())


def test_each_foreign_package_has_one_door():
    for path in ALL_CODE:
        name = path.relative_to(ROOT).as_posix()
        for package in {imported.split(".")[0] for imported in imports_of(path)}:
            assert name in ONLY_IN.get(package, {name}), f"{name} imports {package}"


def test_photo_and_faces_load_no_torch_at_import():
    for path in MODULES:
        if path.relative_to(ROOT / "gpen_core").parts[0] in ("photo", "faces"):
            top = {node.names[0].name for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import)}
            assert "torch" not in top


def test_only_the_command_prints_and_exits():
    for path in MODULES:
        if path.name in ("cli.py", "cli_photos.py", "cli_weights.py", "cli_export.py", "cli_batch.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in ("print", "sys.exit", "exit", "quit"), f"{path}:{node.lineno} calls {name}"


def test_nobody_else_sets_a_default_of_an_option():
    """A parameter named like an option has no default but None, and no code but options.py repeats a help text.

    A network's `forward` is not asked: what it does unasked is no option.
    """
    classes = (RestoreOptions, RuntimeOptions, OutputOptions, BatchOptions)
    names = {f.name for options in classes for f in dataclasses.fields(options)}
    helps = {f.metadata["allowed"].help for options in classes for f in dataclasses.fields(options)}
    for path in ALL_CODE:
        if path.name == "options.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "forward":
                positional = node.args.args[len(node.args.args) - len(node.args.defaults) :]
                pairs = [
                    *zip(positional, node.args.defaults, strict=True),
                    *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
                ]
                for argument, value in pairs:
                    if argument.arg in names and value is not None:
                        assert ast.unparse(value) == "None", f"{path}:{node.lineno} gives {argument.arg} a default"
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in helps, f"{path}:{node.lineno} repeats a help text"


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


IMPORT_QUIETLY = """
import os, pathlib, socket, sys
def refuse(*args, **kwargs): raise AssertionError("a socket was opened at import")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
opened = []
def watch(event, args):
    if event == "open" and isinstance(args[0], str) and args[0].endswith((".safetensors", ".pth", ".pt", ".onnx")):
        opened.append(args[0])
sys.addaudithook(watch)
before = dict(os.environ)
IMPORTS
import torch
assert not torch.cuda.is_initialized(), "CUDA was touched at import"
assert not opened, opened
changed = {key for key in {*os.environ, *before} if os.environ.get(key) != before.get(key)}
# OpenCV's own package sets this one for its libraries.
assert changed <= {"LD_LIBRARY_PATH"}, changed
assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
"""


def test_importing_does_nothing():
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in MODULES
        if path.name != "__main__.py"
    ]
    done = run_python(IMPORT_QUIETLY.replace("IMPORTS", "\n".join(f"import {name}" for name in names)))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr == ""


def test_the_public_names_exist_and_come_on_first_use():
    done = run_python(
        "import sys, gpen_core\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
        "missing = [name for name in gpen_core.__all__ if not hasattr(gpen_core, name)]\n"
        "assert not missing, missing\n"
        "try: gpen_core.nonsense\n"
        "except AttributeError as error: assert 'nonsense' in str(error)\n"
        "else: raise AssertionError('no error')"
    )
    assert done.returncode == 0, done.stderr


def test_functions_stay_short_and_files_small():
    for path in ALL_CODE:
        source = path.read_text(encoding="utf-8")
        assert len(source.splitlines()) <= 420, path
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                length = (body[-1].end_lineno - body[0].lineno + 1) if body else 0
                assert length <= 45, f"{path}:{node.lineno} {node.name} has {length} lines"
