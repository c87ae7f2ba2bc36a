"""The iterated prisoner's dilemma: the game, strategies with exact values, the population they are drawn from."""
