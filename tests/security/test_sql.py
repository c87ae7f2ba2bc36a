"""Text is a value, never a piece of SQL: nothing puts a statement together, and no text changes what is stored."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import rlstudio
from rlstudio.control.runs.adopt import known_run
from rlstudio.control.runs.remove import refuse_referred
from rlstudio.control.store.records import RunRequest
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import RunNotFound

SOURCE = Path(rlstudio.__file__).parent
SAYS_SQL = {"execute", "executemany", "executescript", "exec_driver_sql", "text", "literal_column", "DDL"}
SAYS_SQL |= {"CheckConstraint"}

ALLOWED = {
    ("control/store/database.py", "connection.execute(f'PRAGMA {pragma}')"): "four constants, written above it",
    ("control/store/database.py", "cursor.execute(f'SET lock_timeout = {milliseconds}')"): "our own whole number",
    (
        "control/store/database.py",
        "cursor.execute(f'SET idle_in_transaction_session_timeout = {milliseconds}')",
    ): "our own whole number; SET takes no parameters",
    (
        "control/store/migrations.py",
        "text(f'SELECT pg_advisory_xact_lock({_LOCK})')",
    ): "a constant",
    ("control/store/sweep_tables.py", "text(statement)"): "constants of the module, written below it",
    (
        "control/store/registry_tables.py",
        "text(statement.replace('SERIAL_KEY', serial))",
    ): "constants of the module, written below it",
    (
        "control/store/schema.py",
        "CheckConstraint(f\"{column} IN ({', '.join((repr(str(value)) for value in values))})\","
        " name=f'{column}_known')",
    ): "the members of our enumerations",
}
"""Statements that are put together all the same, and why no text from outside can be among the pieces."""


def composed(tree: ast.AST) -> Iterator[str]:
    """Calls that take SQL and are given text put together from pieces."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in SAYS_SQL and (_is_composed(node.args[0]) or (called == "text" and _is_name(node))):
            yield ast.unparse(node)


def _is_composed(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr(values=values):
            return any(isinstance(value, ast.FormattedValue) for value in values)
        case ast.BinOp(op=ast.Add() | ast.Mod(), left=left, right=right):
            return any(_is_text(side) for side in (left, right))
        case ast.Call(func=ast.Attribute(attr="format" | "join" | "replace"), args=args):
            return not isinstance(node.func.value, ast.Name) or bool(args)  # type: ignore[attr-defined]
        case ast.IfExp(body=body, orelse=orelse):
            return _is_composed(body) or _is_composed(orelse)
    return False


def _is_text(node: ast.AST) -> bool:
    return (isinstance(node, ast.Constant) and isinstance(node.value, str)) or _is_composed(node)


def _is_name(node: ast.Call) -> bool:
    """`text(statement)` of SQLAlchemy, whose statement nobody can see here; `cli.text` has no such function."""
    return isinstance(node.func, ast.Name) and not isinstance(node.args[0], ast.Constant)


def test_no_statement_is_put_together() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        content = path.read_text()
        if "sqlalchemy" in content or "sqlite3" in content or "psycopg" in content:
            found |= {(path.relative_to(SOURCE).as_posix(), call) for call in composed(ast.parse(content))}
    allowed = {(path, ast.unparse(ast.parse(call))) for path, call in ALLOWED}  # quotes are this Python's choice
    assert found - allowed == set()
    assert allowed - found == set()  # an entry that nothing needs any more


@pytest.mark.parametrize(
    "line",
    [
        "c.execute(f'SELECT {x}')",
        "c.execute('SELECT ' + x)",
        "c.execute(x + ' FROM run')",
        "c.execute('SELECT %s' % x)",
        "c.execute('SELECT {}'.format(x))",
        "c.execute(' '.join(parts))",
        "c.execute(text(f'SELECT {x}'))",
        "c.execute(text('SELECT ' + x))",
        "text(x)",
        "c.executescript(f'{x}')",
        "c.exec_driver_sql('BEGIN' if y else f'{x}')",
        "c.executemany('a' + 'b' + x, rows)",
    ],
)
def test_the_check_sees(line: str) -> None:
    assert list(composed(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "c.execute('SELECT 1')",
        "c.execute('SELECT ?', (x,))",
        "c.execute(select(runs).where(runs.c.id == x))",
        "c.execute(query)",
        "c.exec_driver_sql('BEGIN' if reads else 'BEGIN IMMEDIATE')",
        "c.execute(update(runs).values(n=runs.c.n + 1))",
        "text.safe(x)",
        "text('SELECT 1')",
    ],
)
def test_the_check_lets_pass(line: str) -> None:
    assert not list(composed(ast.parse(line)))


INJECTIONS = [
    "'",
    '"',
    "`",
    "''",
    "\\",
    "\\'",
    "';",
    "' OR '1'='1",
    "' OR 1=1--",
    '" OR ""="',
    "') OR ('1'='1",
    "1 OR 1=1",
    "1; DROP TABLE run",
    "'; DROP TABLE run;--",
    "'; DELETE FROM run;--",
    "'; UPDATE run SET state='FAILED';--",
    "'); DELETE FROM event;--",
    "'; INSERT INTO worker (id) VALUES ('x');--",
    "'; ATTACH DATABASE 'x.db' AS x;--",
    "' UNION SELECT * FROM run--",
    "' UNION ALL SELECT NULL,NULL--",
    "' AND 1=(SELECT count(*) FROM run)--",
    "' AND randomblob(1000000000)--",
    "'||(SELECT config_yaml FROM run)||'",
    "'+(SELECT 1)+'",
    "x'; PRAGMA writable_schema=1;--",
    "x' AND load_extension('x')--",
    "x'; VACUUM INTO 'x.db';--",
    "/**/OR/**/1=1",
    "' OR 1=1#",
    "' OR 1=1/*",
    "%' OR '%'='",
    "%",
    "_",
    "%%%",
    "a%b_c",
    ":id",
    "%(id)s",
    "?",
    "$1",
    "{id}",
    "0x27",
    "%27%20OR%201=1",
    "\u02bc OR 1=1",
    "\uff07 OR 1=1--",
    "'\0; DROP TABLE run",
    "'\n; DROP TABLE run",
    "'; SELECT pg_sleep(30);--",
    "$$; DROP TABLE run; $$",
    "CAST('1' AS int)",
]


def request(**changes: str) -> RunRequest:
    return RunRequest(
        **{"name": "n", "algo": "ppo", "env_id": "CartPole-v1", "config_yaml": "", "config_hash": "h", **changes}
    )


def test_no_text_changes_what_is_stored(tmp_path: Path) -> None:
    """As a reference, an id, a name, a key, an owner, a parent, a sweep: found as it is, or not found."""
    assert len(set(INJECTIONS)) >= 40
    workspace = Workspace(tmp_path / "runs")
    store = workspace.store
    first = store.create(request())
    for text in INJECTIONS:
        assert store.runs(name=text) == store.runs(parent=text) == store.runs(ids=[text]) == []
        assert store.events(text) == store.checkpoints(text) == []
        assert store.token(text) is None
        refuse_referred(workspace, {text})
        for act in (
            store.get,
            store.config_yaml,
            store.lineage,
            store.remove,
            workspace.find,
            partial(known_run, workspace),
        ):
            with pytest.raises(RunNotFound):
                act(text)
    assert store.runs() == [first]
    assert len(store.events(first.id)) == 1
    asked = [
        store.create(request(name=text, owner=text, parent_id=text, sweep=text, config_yaml=text), key=text)
        for text in INJECTIONS
    ]
    assert store.count() == 1 + len(INJECTIONS)
    for text, run in zip(INJECTIONS, asked, strict=True):
        kept = text.replace("\0", "\ufffd")
        assert (run.name, run.owner, run.parent_id, run.sweep) == (kept,) * 4
        assert store.config_yaml(run.id) == kept
        assert store.create(request(name=text), key=text).id == run.id
        assert [found.id for found in store.runs(name=text)] == [run.id]
        assert [found.id for found in store.runs(parent=text)] == [run.id]
    assert store.count() == 1 + len(INJECTIONS)
    assert store.get(first.id) == first
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["store.db"]
