"""Tracking as a separate job: tuple tracking for topologies that are not Springline's, with a client library."""
