"""The switch: what may act alone, decided by pure functions over stored state; and the gate, which routers ask."""

from monitor.automation.board import Decision, GateReason
from monitor.automation.gate import AsyncGate, Gate

__all__ = ["AsyncGate", "Decision", "Gate", "GateReason"]
