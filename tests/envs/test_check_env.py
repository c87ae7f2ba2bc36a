import gymnasium
import pytest

from rlstudio.envs.check import check_env
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.probe import used_differs
from rlstudio.envs.gym.recipe import Recipe


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
        ("CliffWalking-v1", {}, "warning", "no episode ended"),
        ("toys/Outside-v0", {}, "warning", "leaves its bounds"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bad_envs_are_found_out(id, kwargs, severity, text):
    if id == "toys/Outside-v0" and id not in gymnasium.registry:
        gymnasium.register(id, outside)
    findings = check_env(EnvConfig(id=id, kwargs=kwargs)).findings
    assert any(finding.severity == severity and text in finding.text for finding in findings), findings


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
