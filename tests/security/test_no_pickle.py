"""No line of RLStudio can execute what it loads: no pickle in any form, no eval, no shell."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlstudio

SOURCE = Path(rlstudio.__file__).parent
MODULES = {
    "pickle",
    "_pickle",
    "cPickle",
    "pickle5",
    "cloudpickle",
    "dill",
    "joblib",
    "marshal",
    "shelve",
    "jsonpickle",
}
CALLS = {"eval", "exec", "compile", "__import__"}  # by bare name; methods of these names are other things
METHODS = {"torch.load", "torch.save", "torch.jit.load", "yaml.load", "yaml.load_all", "yaml.unsafe_load"}
METHODS |= {"yaml.full_load", "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}
NUMPY = {"np.load", "numpy.load", "np.save", "numpy.save"}
LAST = {name.rpartition(".")[2] for name in METHODS | NUMPY}


def forbidden(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (f"import {a.name}" for a in names if a.name.split(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module), names=names):
                dotted = {f"{module}.{alias.name}" for alias in names}
                if module.split(".")[0] in MODULES or dotted & (METHODS | {"numpy.load"}):
                    yield ast.unparse(node)
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(attr=last), keywords=keywords) if last in LAST or any(
                k.arg == "shell" for k in keywords
            ):
                called = ast.unparse(node.func)
                unsafe_numpy = called in NUMPY and not any(
                    k.arg == "allow_pickle" and isinstance(k.value, ast.Constant) and k.value.value is False
                    for k in keywords
                )
                if called in METHODS or unsafe_numpy or any(k.arg == "shell" for k in keywords):
                    yield ast.unparse(node)


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_nothing_in_the_package_can_run_what_it_loads():
    found = [f"{path.relative_to(SOURCE)}: {use}" for path in files() for use in forbidden(ast.parse(path.read_text()))]
    assert len(files()) > 20
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "import pickle as p",
        "import os, dill",
        "from cloudpickle import loads",
        "from joblib import load",
        "import marshal",
        "import shelve",
        "torch.load(path)",
        "torch.load(path, weights_only=True)",
        "from torch import load",
        "torch.save(x, path)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=flag)",
        "yaml.load(text, Loader=yaml.Loader)",
        "yaml.unsafe_load(text)",
        "eval(text)",
        "exec(text)",
        "__import__(name)",
        "subprocess.run(line, shell=True)",
        "os.system(line)",
    ],
)
def test_the_check_sees(line):
    assert list(forbidden(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    ["model.eval()", "torch.compile(f)", "re.compile(x)", "np.load(path, allow_pickle=False)", "yaml.safe_load(t)"],
)
def test_the_check_lets_pass(line):
    assert not list(forbidden(ast.parse(line)))
