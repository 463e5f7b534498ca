"""Lagoon: an inference server for shared accelerators. Here: a thin client, the server as a process, and
models inside this process (lagoon.local)."""

from lagoon.channel import Channel, ChannelFailed
from lagoon.client import Client, RequestFailed
from lagoon.local import Device
from lagoon.process import LagoonProcess, NotStarted

__all__ = ["Channel", "ChannelFailed", "Client", "Device", "LagoonProcess", "NotStarted", "RequestFailed"]
