"""Why an agent cannot connect: the walk of a host, step by step, from outside.

Everything is asked over HTTP, as a host asks it; nothing is known about the server but its answers. So
it tells the same of an installation elsewhere, and it sees what stands in between.
"""

from operations.doctor.findings import Finding, Outcome, Side
from operations.doctor.probe import HOSTS
from operations.doctor.runner import diagnose

__all__ = ["HOSTS", "Finding", "Outcome", "Side", "diagnose"]
