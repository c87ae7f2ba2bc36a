"""Turn-based board games for two players: rules in array code, solved positions, players that follow a rule."""
