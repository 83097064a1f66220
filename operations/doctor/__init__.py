"""Diagnose why an agent cannot connect, over HTTP only, as an MCP host would.

The steps know nothing about the server except its responses, so they also diagnose remote
installations, and they notice proxies.
"""

from operations.doctor.findings import Finding, Outcome, Side
from operations.doctor.probe import HOSTS
from operations.doctor.runner import diagnose

__all__ = ["HOSTS", "Finding", "Outcome", "Side", "diagnose"]
