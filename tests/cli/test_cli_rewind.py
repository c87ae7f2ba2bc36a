"""`rewind`: where it stands and how it came there, a shell and a script with the trainer in them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from support.cli_scenario import Rlctl, everything


def test_it_says_where_it_stands(rlctl: Rlctl, trained: Path) -> None:
    before = everything(trained)
    done = rlctl("rewind", "last", "--at", 100, "--runs-dir", trained)
    assert done.code == 0, done.err
    announced, stands, state, metrics = done.out.splitlines()
    assert "from the start, 100 steps, about 0:0" in announced
    assert stands.startswith("stands at 128 steps (no train step ends at 100), epoch 2, after 0:0")
    assert state.startswith("state_hash  ")
    assert "the same" in metrics
    assert everything(trained) == before


def test_as_a_document(rlctl: Rlctl, trained: Path) -> None:
    document = rlctl("rewind", "last", "--at", 64, "--runs-dir", trained, "--json").document
    assert (document["env_steps"], document["epoch"], document["attempt"], document["from"]) == (64, 1, 0, 0)
    assert len(document["state_hash"]) == 64
    assert document["metrics"]["divergence"] is None


def test_a_script_has_the_trainer(rlctl: Rlctl, trained: Path, place: Path) -> None:
    script = place / "look.py"
    script.write_text(
        "assert trainer.source.env_steps == session.trainer.source.env_steps == 64\n"
        "before = moment.state_hash()\n"
        "assert moment.advance().env_steps == 128 and moment.state_hash() != before\n"
        "print(cfg.env.id, agent.acting)\n"
    )
    done = rlctl("rewind", "last", "--at", 64, "--script", script, "--runs-dir", trained)
    assert done.code == 0, done.err
    assert "CartPole-v1 " in done.out.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('no good')", 1, "no good"),
        ("def f():\n    return 1 / 0\nf()", 2, "look.py:3: ZeroDivisionError: division by zero"),
    ],
)
def test_how_a_script_ends_is_its_own(
    rlctl: Rlctl, trained: Path, place: Path, line: str, code: int, message: str
) -> None:
    (place / "look.py").write_text(line)
    done = rlctl("rewind", "last", "--at", 0, "--script", "look.py", "--runs-dir", trained)
    assert done.code == code
    assert message in done.err


def test_a_shell_has_it_too(rlctl: Rlctl, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("print('at', moment.advance().env_steps)\nexit()\n"))
    done = rlctl("rewind", "last", "--at", 64, "--shell", "--runs-dir", trained)
    assert done.code == 0
    assert "at 128" in done.out
    assert "moment.advance() does its next train step" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--at", "1000"], "it has done 192 steps; give --at a step up to that"),
        (["--at", "64", "--attempt", "1"], "attempt 1: it has had no roll-backs; leave --attempt out"),
        (["--at", "64", "--script", "none.py"], "--script none.py: is not a file"),
        ([], "missing option '--at'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(rlctl: Rlctl, trained: Path, words: list[str], message: str) -> None:
    refused = rlctl("rewind", "last", "--runs-dir", trained, *words)
    assert refused.code == 2
    assert message in refused.err
    assert refused.err.count("\n") == 1


def test_from_python(trained: Path) -> None:
    from rlstudio import orchestrator

    run = orchestrator.get("last", runs_dir=trained)
    with run.rewind(64) as moment:
        assert moment.env_steps == 64
        with run.rewind(128) as later:
            moment.advance()
            assert moment.state_hash() == later.state_hash()
