"""Connections: their deadlines, how many there may be, and the server that holds them."""
