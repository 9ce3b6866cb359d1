"""Break the circuit of an endpoint, so that a server that is down or refuses requests is not asked again and again.

    closed ──failures──► open ──time──► half open ──success──► closed
                           ▲                 └──failure──► open, for twice as long

This is a pure state machine over monotonic seconds, after the circuit breaker of M. Nygard, "Release It!" (2007). Its
state is only in the daemon's memory. A restart often follows an attempt to fix a fault, so it begins closed, which
costs at most one question.
"""

from dataclasses import dataclass, replace

from memoryd.llm.failure import BUSY_SECONDS, Failure, Trouble

FAILURES = 3  # after this many failures in a row, an endpoint counts as down
FIRST_PAUSE = 60.0
LONGEST_PAUSE = 3600.0
_ANSWERED = frozenset({Trouble.BAD_REPLY, Trouble.OVERFLOW, Trouble.LIMIT})  # failures of an endpoint that works


@dataclass(frozen=True, slots=True)
class Circuit:
    """Hold the state of the circuit of one endpoint."""

    failures: int = 0  # the number of failures in a row
    open_until: float | None = None  # monotonic seconds; None if the circuit is closed
    pause: float = FIRST_PAUSE  # the seconds for which the next failure opens the circuit
    probing: bool = False  # the circuit is half open, and its one question is running
    blocked: str = ""  # the reason why a person must act; empty if nobody must


def admit(circuit: Circuit, now: float) -> tuple[Circuit, bool]:
    """Return the new circuit, and True if a question may be asked now; a half-open circuit admits only one."""
    if circuit.open_until is None:
        return circuit, True
    if now < circuit.open_until or circuit.probing:
        return circuit, False
    return replace(circuit, probing=True), True


def refuse(circuit: Circuit, now: float, name: str) -> Failure:
    """Return the failure of a question that was not admitted; `name` is what takes no calls."""
    trouble = Trouble.BLOCKED if circuit.blocked else Trouble.BUSY
    what = circuit.blocked or f"calls to the {name} are paused after a failure"
    return Failure(trouble, what, retry_after=wait(circuit, now))


def failure_of(result: object) -> Failure | None:
    """Return the failure of a call; None if the endpoint works, because it answered, even with an unusable reply."""
    return result if isinstance(result, Failure) and result.trouble not in _ANSWERED else None


def note_result(circuit: Circuit, now: float, failure: Failure | None) -> Circuit:
    """Return the circuit after a call; if `failure` is None, there was an answer, which closes the circuit."""
    if failure is None:
        return Circuit()
    if failure.trouble is Trouble.BLOCKED:
        # a retry does not fix it, so one probe an hour is allowed
        return replace(circuit, open_until=now + LONGEST_PAUSE, probing=False, blocked=failure.what)
    if failure.trouble is not Trouble.UNAVAILABLE:
        return told_to_wait(circuit, now, failure.retry_after or BUSY_SECONDS)
    failed = note_failure(circuit, now)
    return told_to_wait(failed, now, failure.retry_after) if failure.retry_after else failed


def note_failure(circuit: Circuit, now: float) -> Circuit:
    """Return the circuit after a question without an answer; it opens after some in a row, or after a failed probe."""
    failures = circuit.failures + 1
    if failures < FAILURES and not circuit.probing:
        return replace(circuit, failures=failures)
    return Circuit(failures, now + circuit.pause, min(circuit.pause * 2, LONGEST_PAUSE))


def told_to_wait(circuit: Circuit, now: float, seconds: float) -> Circuit:
    """Return the circuit after the server asked to wait for some seconds; more than an hour counts as an hour."""
    return replace(circuit, open_until=now + min(seconds, LONGEST_PAUSE), probing=False)


def release(circuit: Circuit) -> Circuit:
    """Return the circuit after a question that was admitted, but never asked."""
    return replace(circuit, probing=False)


def wait(circuit: Circuit, now: float) -> float:
    """Return the seconds until the next question may be asked; 0 if it may be asked now."""
    return 0.0 if circuit.open_until is None else max(1.0, circuit.open_until - now)
