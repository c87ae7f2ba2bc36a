import gymnasium
import pytest

from rlstudio.envs.check import check_env
from rlstudio.envs.check_play import Amount
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.probe import used_differs
from rlstudio.envs.gym.recipe import Recipe
from support.wearing_envs import register_wearing


@pytest.mark.parametrize(
    "id",
    [
        "CartPole-v1",
        "Acrobot-v1",
        "Pendulum-v1",
        "FrozenLake-v1",
        "toys/Choices-v0",
        "toys/Views-v0",
        "rlstudio/Chain-v0",
    ],
)
def test_good_envs_have_no_errors(id):
    report = check_env(EnvConfig(id=id))
    assert report.ok
    assert not [finding for finding in report.findings if finding.severity == "warning"]


@pytest.mark.parametrize(
    ("id", "kwargs", "severity", "text"),
    [
        ("toys/Restless-v0", {}, "error", "resume cannot be exact"),
        ("toys/Leftover-v0", {}, "warning", "rebuilt for every episode"),
        ("toys/Faulty-v0", {"fault": "nan"}, "error", "not finite"),
        ("toys/Faulty-v0", {"fault": "inf reward"}, "error", "reward is not finite"),
        ("toys/Faulty-v0", {"fault": "none reward"}, "error", "reward is a NoneType"),
        ("toys/Faulty-v0", {"fault": "shape"}, "error", "its space says"),
        ("toys/Faulty-v0", {"fault": "raise"}, "error", "ZeroDivisionError"),
        ("toys/Faulty-v0", {"fault": "sys.exit"}, "error", "SystemExit"),
        ("CartPole", {}, "error", "did you mean CartPole-v1"),
        ("Blackjack-v1", {}, "error", "Tuple"),
        ("toys/Wearing-v0", {"length": 10**9}, "warning", "no episode ended within 10,000 random steps"),
        ("toys/Outside-v0", {}, "warning", "leaves its bounds"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bad_envs_are_found_out(id, kwargs, severity, text):
    register_wearing()
    if id == "toys/Outside-v0" and id not in gymnasium.registry:
        gymnasium.register(id, outside)
    findings = check_env(EnvConfig(id=id, kwargs=kwargs)).findings
    assert any(finding.severity == severity and text in finding.text for finding in findings), findings


@pytest.mark.parametrize(
    ("breaks", "text"),
    [
        ("late", "IndexError: list index out of range at tests/support/wearing_envs.py:"),
        ("late", "episode 0 (seed 11), step 250, action"),
        ("third", "RuntimeError: no third episode"),
        ("third", "episode 2 (seed 13), step 5, action"),
        ("old", "observation 'state'[0] (nan) is not finite; episode 1 (seed 12), step 201, action"),
        ("old", "a reward is not finite (nan); episode 1 (seed 12), step 201, action"),
    ],
)
def test_an_env_that_breaks_late_is_found_out_with_its_place(breaks, text):
    """Newcomer S2: 200 random steps said "fit to train on" of environments that are not."""
    register_wearing()
    report = check_env(EnvConfig(id="toys/Wearing-v0", kwargs={"breaks": breaks}))
    assert not report.ok
    assert any(text in finding.text for finding in report.findings), report.findings


def test_a_check_says_how_much_it_played_and_plays_as_much_as_is_asked_for():
    register_wearing()
    cfg = EnvConfig(id="toys/Wearing-v0", kwargs={"length": 400})
    usual, asked = check_env(cfg), check_env(cfg, Amount.of_steps(450))
    assert (usual.steps, usual.episodes, usual.ok) == (1200, 3, True)
    assert (asked.steps, asked.episodes, asked.ok) == (450, 1, True)


@pytest.mark.parametrize("breaks", ["never", "late", "old"])
def test_every_env_that_is_tried_out_is_closed(breaks, monkeypatch):
    """Newcomer S2: `used_differs` left envs open where it answered early."""
    register_wearing()
    made, closed = [], []
    build = Recipe.build

    def counted(self, *args, **kwargs):
        env = build(self, *args, **kwargs)
        made.append(env)
        env.close = lambda: closed.append(env)
        return env

    monkeypatch.setattr(Recipe, "build", counted)
    kwargs = {"breaks": breaks, "life": 40, "length": 30}
    check_env(EnvConfig(id="toys/Wearing-v0", kwargs=kwargs), Amount.of_steps(60))
    assert made
    assert {id(env) for env in made} == {id(env) for env in closed}


def outside():
    env = gymnasium.make("CartPole-v1").unwrapped
    env.observation_space = gymnasium.spaces.Box(-0.01, 0.01, (4,))
    return env


def test_used_objects_that_differ_are_found():
    def differs(id):
        from rlstudio.envs.gym.spaces import convert_spaces

        recipe = Recipe(EnvConfig(id=id))
        return used_differs(recipe, convert_spaces(recipe.build(), id))

    assert differs("toys/Leftover-v0")
    assert not differs("CartPole-v1")
    assert not differs("toys/Views-v0")


def test_each_parameter_is_told_to_change_the_start_the_dynamics_or_nothing():
    params = {"length": {"uniform": [0.25, 1.5], "observed": True}, "force": 12.0}
    assert param_lines("CartPole-v1", params) == [
        ("info", "env.params: length changes the dynamics (0.25 against 1.5, with equal actions)"),
        ("info", "env.params: force changes the dynamics (12 against its own value, with equal actions)"),
    ]
    assert param_lines("MountainCar-v0", {"reset:low": {"uniform": [-0.6, -0.5]}, "attr:min_position": -2.0}) == [
        ("info", "env.params: reset:low changes the start (-0.6 against -0.5, with equal actions)"),
        (
            "warning",
            "env.params: attr:min_position changed nothing (-2 against its own value, 100 equal random actions in each"
            " of 3 envs); is it what the env reads in `reset` and `step`?",
        ),
    ]


def param_lines(id, params):
    report = check_env(EnvConfig(id=id, params=params), Amount.of_steps(50))
    assert report.ok
    return [(each.severity, each.text) for each in report.findings if each.text.startswith("env.params")]
