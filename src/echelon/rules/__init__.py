"""DECIDE: pure functions of (state seen, now); nothing here touches the world."""
