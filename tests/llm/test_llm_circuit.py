"""The circuit breaker, as a machine that is asked and told at random."""

from hypothesis import given
from hypothesis import strategies as st

from memoryd.llm.circuit import (
    FAILURES,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    Circuit,
    admit,
    note_failure,
    note_result,
    release,
    told_to_wait,
    wait,
)
from memoryd.llm.failure import Failure, Trouble

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "answered", "failed", "refused", "released", "told"]), st.integers(0, 5000).map(float)
    ),
    max_size=60,
)


def after(event, circuit, now, seconds):
    match event:
        case "answered":
            return note_result(circuit, now, None)
        case "failed":
            return note_failure(circuit, now)
        case "refused":
            return note_result(circuit, now, Failure(Trouble.BLOCKED, "x"))
        case "released":
            return release(circuit)
        case _:
            return told_to_wait(circuit, now, seconds)


@given(EVENTS)
def test_it_never_stays_shut_and_never_lets_two_probes_through(events):
    circuit, now, probing = Circuit(), 0.0, False
    for event, seconds in events:
        now += seconds
        if event == "ask":
            was_open = circuit.open_until is not None
            circuit, admitted = admit(circuit, now)
            assert not (admitted and was_open and probing)
            probing = probing or (admitted and was_open)
        else:
            circuit = after(event, circuit, now, seconds)
            probing = circuit.probing
        assert circuit.open_until is None or circuit.open_until <= now + LONGEST_PAUSE
        assert wait(circuit, now) <= LONGEST_PAUSE
        assert circuit.probing or admit(circuit, now + LONGEST_PAUSE)[1]


def test_it_opens_after_some_failures_in_a_row_and_for_longer_each_time():
    circuit = Circuit()
    for _ in range(FAILURES - 1):
        circuit = note_failure(circuit, 0)
        assert admit(circuit, 0)[1]
    circuit = note_failure(circuit, 0)
    assert not admit(circuit, FIRST_PAUSE - 1)[1]
    circuit, admitted = admit(circuit, FIRST_PAUSE)
    assert admitted
    assert not admit(circuit, FIRST_PAUSE)[1]
    circuit = note_failure(circuit, FIRST_PAUSE)
    assert circuit.open_until == FIRST_PAUSE + 2 * FIRST_PAUSE
    assert note_result(circuit, FIRST_PAUSE, None) == Circuit()


def test_a_success_between_failures_counts_from_the_beginning():
    circuit = note_result(note_failure(note_failure(Circuit(), 0), 0), 0, None)
    assert admit(note_failure(note_failure(circuit, 0), 0), 0)[1]


def test_what_a_person_must_mend_is_probed_once_an_hour():
    circuit = note_result(Circuit(), 0, Failure(Trouble.BLOCKED, "401"))
    assert circuit.blocked == "401"
    assert not admit(circuit, LONGEST_PAUSE - 1)[1]
    probe, admitted = admit(circuit, LONGEST_PAUSE)
    assert admitted
    assert not admit(probe, LONGEST_PAUSE)[1]
    assert admit(release(probe), LONGEST_PAUSE)[1]
