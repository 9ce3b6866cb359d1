"""Break the circuit of an endpoint: a server that is down, or refuses us, is not asked again and again.

    closed ──failures──► open ──time──► half open ──success──► closed
                          ▲                 └──failure──► open, for twice as long

This is a pure state machine over monotonic seconds, after the pattern of M. Nygard, "Release It!" (2007). Its state is
in the daemon's memory. A restart, like a new configuration, is mostly an attempt to fix a fault, and costs one
question.
"""

from dataclasses import dataclass, replace

FAILURES = 3  # in a row, until an endpoint counts as down
FIRST_PAUSE = 60.0
LONGEST_PAUSE = 3600.0


@dataclass(frozen=True, slots=True)
class Circuit:
    """Hold the knowledge about an endpoint."""

    failures: int = 0  # in a row
    open_until: float | None = None  # None: closed
    pause: float = FIRST_PAUSE  # seconds, the next time it opens for a failure
    probing: bool = False  # half open, and the one question that is let through is running
    blocked: str = ""  # why only a person can fix it; otherwise empty


def admit(circuit: Circuit, now: float) -> tuple[Circuit, bool]:
    """Return True if a question may be asked now; while half open, only one may."""
    if circuit.open_until is None:
        return circuit, True
    if now < circuit.open_until or circuit.probing:
        return circuit, False
    return replace(circuit, probing=True), True


def note_answer(_: Circuit) -> Circuit:
    """Return the circuit after an answer with any content: the endpoint works and accepts our questions."""
    return Circuit()


def note_failure(circuit: Circuit, now: float) -> Circuit:
    """Return the circuit after a question that was not answered; opens after some in a row, or after a probe."""
    failures = circuit.failures + 1
    if failures < FAILURES and not circuit.probing:
        return replace(circuit, failures=failures)
    longer = min(circuit.pause * 2, LONGEST_PAUSE)
    return Circuit(failures, now + circuit.pause, longer)


def told_to_wait(circuit: Circuit, now: float, seconds: float) -> Circuit:
    """Return the circuit after the server named a time to wait; it is believed up to an hour."""
    return replace(circuit, open_until=now + min(seconds, LONGEST_PAUSE), probing=False)


def note_refusal(circuit: Circuit, now: float, why: str) -> Circuit:
    """Return the circuit after a refusal that a repetition does not fix: one probe an hour."""
    return replace(circuit, open_until=now + LONGEST_PAUSE, probing=False, blocked=why)


def release(circuit: Circuit) -> Circuit:
    """Return the circuit after a question that was let through and never asked."""
    return replace(circuit, probing=False)


def wait(circuit: Circuit, now: float) -> float:
    """Return the seconds until it is worth asking again."""
    return 0.0 if circuit.open_until is None else max(1.0, circuit.open_until - now)
