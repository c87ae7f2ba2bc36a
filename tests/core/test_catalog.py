"""Catalogs: lazy loading, summaries without imports, plug-ins of real installed packages and their clashes."""

import subprocess
import sys
import textwrap

import pytest

from rlstudio.core.catalog import Catalog, catalogs
from rlstudio.core.errors import UnknownName, UserError
from support.plugins import install_package


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package: a module and a .dist-info with entry points, as pip would write them."""
    monkeypatch.syspath_prepend(str(tmp_path))
    installed = []

    def package(name: str, entries: dict[str, str], source: str) -> None:
        sources = {
            f"{name}/__init__.py": "raise RuntimeError('nobody may import this package to list it')\n",
            f"{name}/part.py": textwrap.dedent(source),
            f"{name}_flat.py": textwrap.dedent(source),
        }
        install_package(tmp_path, name, "1.0", {"rlstudio.things": entries}, sources)
        installed.append(name)

    yield package
    for module in [m for m in sys.modules if m.split(".")[0] in installed or m.removesuffix("_flat") in installed]:
        del sys.modules[module]


def things(builtin=None) -> Catalog:
    return Catalog("thing", builtin or {"spaces": "rlstudio.core.spaces:Spaces", "rng": "rlstudio.core.rng:Rng"})


def test_builtin_parts_load_by_name():
    from rlstudio.core.spaces import Spaces

    assert things().names() == ["rng", "spaces"]
    assert things().load("spaces") is Spaces


def test_unknown_names_are_suggested_or_listed():
    with pytest.raises(UnknownName, match=r"^unknown thing 'space'; did you mean spaces\?$"):
        things().load("space")
    with pytest.raises(UnknownName, match=r"^unknown thing 'xyz'; known: rng, spaces$"):
        things().load("xyz")


def test_a_plugin_is_listed_told_and_loaded(install):
    install(
        "acme", {"acme_thing": "acme_flat:Thing"}, '"""Acme: a thing from elsewhere.\n\nMore."""\nclass Thing: ...\n'
    )
    catalog = things()
    assert catalog.names() == ["acme_thing", "rng", "spaces"]
    assert catalog.summary("acme_thing") == "Acme: a thing from elsewhere."
    assert "acme_flat" not in sys.modules
    assert catalog.load("acme_thing").__name__ == "Thing"


def test_listing_imports_neither_the_module_nor_its_package(install):
    install("acme", {"deep": "acme.part:Thing"}, '"""Deep thing."""\nraise RuntimeError\nclass Thing: ...\n')
    assert things().summary("deep") == "Deep thing."
    assert "acme" not in sys.modules


def test_a_plugin_may_not_take_a_builtin_name(install):
    install("acme", {"rng": "acme_flat:Thing"}, "class Thing: ...\n")
    catalog = things()
    with pytest.raises(UserError) as caught:
        catalog.load("rng")
    message = str(caught.value)
    assert message == (
        "thing 'rng' is offered by rlstudio (rlstudio.core.rng:Rng) and acme (acme_flat:Thing); "
        "uninstall or rename one of them"
    )
    assert catalog.summary("rng") == message
    assert catalog.load("spaces")  # the others still work


def test_two_plugins_may_not_share_a_name(install):
    install("acme", {"same": "acme_flat:Thing"}, "class Thing: ...\n")
    install("bolt", {"same": "bolt_flat:Thing"}, "class Thing: ...\n")
    with pytest.raises(UserError, match=r"'same' is offered by (acme|bolt) .* and (acme|bolt) "):
        things().load("same")


@pytest.mark.parametrize(
    ("target", "source", "reason"),
    [
        ("acme_flat:Thing", "import not_there_at_all\n", "ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("acme_flat:Missing", "class Thing: ...\n", "AttributeError: module 'acme_flat' has no attribute 'Missing'"),
        ("acme_flat:Thing", "raise RuntimeError('two\\nlines')\n", "RuntimeError: two lines"),
        ("acme_flat:Thing", "def broken(:\n", "SyntaxError: "),
        ("acme_nowhere:Thing", "", "ModuleNotFoundError: No module named 'acme_nowhere'"),
    ],
)
def test_a_broken_plugin_is_named_in_one_line(install, target, source, reason):
    install("acme", {"broken": target}, source)
    with pytest.raises(UserError) as caught:
        things().load("broken")
    message = str(caught.value)
    assert message.startswith(f"thing 'broken' of package acme cannot be loaded from {target}: {reason}")
    assert "\n" not in message
    assert "\n" not in things().summary("broken")


def test_a_broken_builtin_keeps_its_trace():
    with pytest.raises(ModuleNotFoundError):
        things({"lost": "rlstudio.core.not_there:X"}).load("lost")


def test_parts_that_share_a_module_are_told_by_their_own_docstring(install):
    source = '"""Two things."""\nclass One:\n    """The first."""\nclass Two:\n    """The second.\n\n    More."""\n'
    install("acme", {"one": "acme_flat:One", "two": "acme_flat:Two"}, source)
    assert [things().summary(name) for name in ("one", "two")] == ["The first.", "The second."]


def test_a_function_is_a_part_too(install):
    source = '"""Two things."""\ndef one(): "The first."\ndef two(): "The second."\n'
    install("acme", {"one": "acme_flat:one", "two": "acme_flat:two"}, source)
    assert [things().summary(name) for name in ("one", "two")] == ["The first.", "The second."]


def test_sources_without_docstring_or_source_file(install):
    install(
        "acme", {"silent": "acme_flat:Thing", "compiled": "sys:path", "empty": "acme_missing:X"}, "class Thing: ...\n"
    )
    catalog = things()
    assert catalog.summary("silent") == ""
    assert catalog.summary("compiled") == "cannot be read: no source file of sys (package acme)"
    assert catalog.summary("empty") == "cannot be read: no module acme_missing (package acme)"


def test_every_builtin_part_exists_and_says_what_it_is():
    assert {catalog.kind for catalog in catalogs()} >= {"algo", "planner", "dynamics", "score", "sampler", "launcher"}
    for catalog in catalogs():
        for name in catalog.builtin:
            assert callable(catalog.load(name))
            assert len(catalog.summary(name)) > 10
            assert "cannot be read" not in catalog.summary(name)


def test_listing_algorithms_does_not_import_torch():
    code = (
        "import sys; from rlstudio.core.catalog import catalogs\n"
        "print([c.summary(n) for c in catalogs() for n in c.names()])\n"
        "assert not {'torch', 'gymnasium', 'rlstudio.algos'} & set(sys.modules), sorted(sys.modules)\n"
    )
    child = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (child.returncode, child.stderr) == (0, "")
    assert "PPO: clipped policy gradient" in child.stdout
