"""Load what was trained and act with it: python load_agent.py [RUN]"""

import sys

import gymnasium as gym

from rlstudio import orchestrator

agent = orchestrator.get(sys.argv[1] if len(sys.argv) > 1 else "last").agent()  # or agent("best")
episode = agent.episode()  # keeps what an agent remembers or plans; one that does neither has agent.act as well
env = gym.make("CartPole-v1")

observation, _ = env.reset(seed=7)
total, over = 0.0, False
while not over:
    observation, reward, terminated, truncated, _ = env.step(episode.act(observation))
    total, over = total + float(reward), terminated or truncated
print(f"return {total:.0f}")
