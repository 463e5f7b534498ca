"""Lagoon on the nodes of a Ray cluster: docs/guide/fleet.md."""
