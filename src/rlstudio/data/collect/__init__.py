"""Stepping environments with an agent: collector, packer, exploration, and fresh rollouts as a source."""
