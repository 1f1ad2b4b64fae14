"""Real clients, unmodified, against the embedded hub: who uses it as a test server brings one of these."""
