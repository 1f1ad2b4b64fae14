"""The member side: applies Works, reports status and heartbeats."""
