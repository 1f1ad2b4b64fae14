"""PLAY: simulated members on the embedded hub."""
