"""RUN: queue, controller loop, the one writer, clocks, leases, telemetry."""
