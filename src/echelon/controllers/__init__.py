"""One file = what it watches + how it loads; no decisions live here."""
