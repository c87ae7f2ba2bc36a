"""`rlctl tournament` and `rlctl eval` of a run that learned by self-play."""

from pathlib import Path

from support.cli_scenario import Rlctl
from support.experiments import tiny_yaml


def launched(rlctl: Rlctl, place: Path) -> None:
    game = {"id": "rlstudio/TicTacToe-v0", "num_envs": 16}
    sizes = {"epochs": 2, "steps_per_epoch": 256, "rollout_steps": 16}
    whom = {"opponents": ["random", "minimax"]}
    (place / "game.yaml").write_text(tiny_yaml("ppo", name="game", env=game, train=sizes, self_play={}, eval=whom))
    result = rlctl("launch", "-f", "game.yaml", "-q")
    assert result.code == 0, result.err


def test_a_table_a_document_a_picture_and_rates(rlctl: Rlctl, place: Path) -> None:
    launched(rlctl, place)
    names = ["--player", "random", "--player", "minimax"]
    table = rlctl("tournament", "game", *names, "--games", 20, "--simulations", 4, "--out", "table.svg")
    assert table.code == 0, table.err
    lines = table.out.splitlines()
    assert lines[0] == "rlstudio/TicTacToe-v0, 20 games of every two players, draws as half a win"
    assert lines[1].split()[:2] == ["player", "Elo"]
    assert lines[2].split()[1] == "minimax"  # nobody beats it
    assert lines[-1] == "table.svg"
    assert (place / "table.svg").stat().st_size > 1000
    document = rlctl("tournament", "game", *names, "--games", 20, "--json").document
    by_name = {player["name"]: player for player in document["players"]}
    assert by_name["random"]["elo"] == 0
    assert by_name["minimax"]["elo_low"] > 0
    for one in range(3):
        for other in range(3):
            total = document["wins"][one][other] + document["wins"][other][one] + document["draws"][one][other]
            assert total == (20 if one != other else 0)
    evaluated = rlctl("eval", "last", "--episodes", 8)
    assert any(line.split()[0] == "minimax/seat_1/loss_rate" for line in evaluated.out.splitlines()), evaluated.out
    assert rlctl("eval", "last", "--episodes", 8, "--json").document["versus"]["minimax/win_rate"] == 0


def test_what_cannot_meet_is_one_line(rlctl: Rlctl, place: Path, trained: Path) -> None:
    launched(rlctl, place)
    for words, reason in [
        (["last"], "a tournament needs two players; name another run, or --player random"),
        (["last", "--player", "minmax"], "--player: rlstudio/TicTacToe-v0 has no opponent 'minmax'"),
        (["last", "--runs-dir", str(trained), "--player", "random"], "a tournament is of a game for two agents"),
    ]:
        refused = rlctl("tournament", *words)
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused
        assert reason in refused.err


def test_the_bundle_of_a_run_plays_as_the_run_does(rlctl: Rlctl, place: Path) -> None:
    launched(rlctl, place)
    assert rlctl("export", "game", "-o", "b", "--format", "bundle").code == 0
    tables = [rlctl("tournament", policy, "--player", "random", "--json").document for policy in ("game", "b")]
    assert tables[0] == tables[1]  # also where it chooses by its probabilities
    by_run, by_bundle = (rlctl("eval", policy, "--episodes", 16, "--json").document for policy in ("game", "b"))
    assert by_run["versus"] == by_bundle["versus"]
    assert "random/seat_1/loss_rate" in by_bundle["versus"]


def test_a_run_and_its_bundle_are_two_players(rlctl: Rlctl, place: Path) -> None:
    launched(rlctl, place)
    assert rlctl("export", "game", "-o", "b", "--format", "bundle").code == 0
    players = rlctl("tournament", "game", "b", "--games", 4, "--json").document["players"]
    names = [player["name"] for player in players]
    assert len(names) == len(set(names)) == 2
    assert names[1] == f"{names[0]} #2"


def test_a_game_without_pictures_is_not_filmed(rlctl: Rlctl, place: Path) -> None:
    launched(rlctl, place)
    refused = rlctl("play", "game")
    assert (refused.code, refused.err.count("\n")) == (2, 1), refused
    assert "rlstudio/TicTacToe-v0 is a world of several agents that draws no pictures" in refused.err
    (place / "game.yaml").write_text((place / "game.yaml").read_text().replace("name: game", "name: again"))
    assert "rlctl play" not in rlctl("launch", "-f", "game.yaml").out


def test_a_check_that_plays_nothing_counts_no_steps(rlctl: Rlctl) -> None:
    checked = rlctl("check", "rlstudio/TicTacToe-v0")
    assert (checked.code, checked.out.splitlines()[-1]) == (0, "rlstudio/TicTacToe-v0: fit to train on")
