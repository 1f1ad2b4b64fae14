"""Commands of the repository behind ./dev; nothing here is shipped."""
