"""How the other ranks are started and met: as processes of this machine, by torchrun, or in a Ray cluster."""
