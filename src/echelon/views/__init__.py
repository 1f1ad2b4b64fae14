"""Read models shared by the command line, JSON and the web."""
