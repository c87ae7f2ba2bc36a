"""Commands for games: policies that play against each other."""
