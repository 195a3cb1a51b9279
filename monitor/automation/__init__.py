"""The switch: what may act alone, decided by pure functions over stored state; and the gate, which routers ask."""

from monitor.automation.gate.gate import AsyncGate, Gate
from monitor.automation.gate.snapshot import Decision
from monitor.automation.state import GateReason

__all__ = ["AsyncGate", "Decision", "Gate", "GateReason"]
