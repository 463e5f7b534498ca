"""Lagoon: an inference server for shared accelerators. Here: a thin client and the server as a process."""

from lagoon.channel import Channel, ChannelFailed
from lagoon.client import Client, RequestFailed
from lagoon.process import LagoonProcess, NotStarted

__all__ = ["Channel", "ChannelFailed", "Client", "LagoonProcess", "NotStarted", "RequestFailed"]
