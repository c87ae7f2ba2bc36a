"""Board games of two players by turns: rules in array code, positions solved, players that follow a rule."""
