"""Benches: one module a subject, run by `./dev bench WHAT`."""
