"""A small stand-in for the Axelrod library, which takes many seconds to import: the part of it that is used."""

from __future__ import annotations

import enum
import random
from types import ModuleType


class Action(enum.Enum):
    C = 1
    D = 0

    def flip(self):
        return Action.D if self is Action.C else Action.C


C, D = Action.C, Action.D


class Player:
    name = "Player"
    classifier: dict = {}

    def __init__(self):
        self.history, self.coplays, self.seed, self.length = [], [], None, None

    def clone(self):
        return type(self)()

    def update_history(self, play, coplay):
        self.history.append(play)
        self.coplays.append(coplay)

    def set_seed(self, seed):
        self.draws = random.Random(seed)

    def set_match_attributes(self, length=-1, game=None, noise=0):
        self.length = length


def classified(depth, stochastic=False, **more):
    return {"memory_depth": depth, "stochastic": stochastic, "inspects_source": False, **more}


class Defector(Player):
    name, classifier = "Defector", classified(0)

    def strategy(self, opponent):
        return D


class TitForTat(Player):
    name, classifier = "Tit For Tat", classified(1)

    def strategy(self, opponent):
        return opponent.history[-1] if opponent.history else C


class GTFT(Player):
    name, classifier = "GTFT", classified(1, stochastic=True)

    def __init__(self):
        super().__init__()
        self._initial, self._four_vector = C, {(C, C): 1.0, (C, D): 0.25, (D, C): 1.0, (D, D): 0.25}

    def strategy(self, opponent):
        if not self.history:
            return C
        return C if self.draws.random() < self._four_vector[self.history[-1], opponent.history[-1]] else D


class Random(Player):
    name, classifier = "Random", classified(0, stochastic=True)

    def strategy(self, opponent):
        return self.draws.choice([C, D])


class TitFor2Tats(Player):
    name, classifier = "Tit For 2 Tats", classified(2)

    def strategy(self, opponent):
        return D if opponent.history[-2:] == [D, D] else C


class Grudger(Player):
    name, classifier = "Grudger", classified(float("inf"))

    def strategy(self, opponent):
        return D if D in opponent.history else C


class MindReader(Player):
    name, classifier = "Mind Reader", classified(float("inf"), inspects_source=True)


def stand_in() -> ModuleType:
    module = ModuleType("axelrod")
    module.Action, module.Player = Action, Player
    module.strategies = [Defector, TitForTat, GTFT, Random, TitFor2Tats, Grudger, MindReader]
    return module
