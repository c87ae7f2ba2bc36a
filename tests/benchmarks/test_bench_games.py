"""The judgement of the games benchmark, on strategies whose results are known."""

import pytest

from benchmarks import games
from rlstudio.envs.worlds.games.exact import at_random, perfectly


def test_perfect_play_never_loses_and_chance_does():
    assert set(games.exact_losses(perfectly).values()) == {0.0}
    losses = games.exact_losses(at_random)
    assert losses["first, chance"] == pytest.approx(0.288, abs=5e-4)  # docs/howto/self-play.md
    assert losses["second, chance"] == pytest.approx(0.585, abs=5e-4)
    assert losses["second, perfect play"] == pytest.approx(0.968, abs=5e-4)


def test_rows_show_the_worst_seed_and_count_those_that_never_lose():
    line = {"case": "tic-tac-toe", "identity": games.identity(games.TICTACTOE), "env_steps": 1000}
    never, once = {"first, chance": 0.0, "second, chance": 0.0}, {"first, chance": 0.0, "second, chance": 0.004}
    stored = [
        {**line, "seed": 0, "losses": never, "searched": never},
        {**line, "seed": 1, "losses": once, "searched": never},
        {**line, "seed": 2, "identity": "older", "losses": once, "searched": once},
    ]
    assert games.tictactoe_rows(stored) == [
        ["the network alone", "0.00 %", "0.40 %", "1 of 2"],
        ["with a search of 16", "0.00 %", "0.00 %", "2 of 2"],
    ]
