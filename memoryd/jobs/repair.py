"""Send refused claims back to their author once, in a separate question, with reasons from a closed list."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace

from memoryd.jobs.claims import Claim, JudgedClaim
from memoryd.jobs.job import Ask, QuotedPiece, Reply
from memoryd.jobs.judging import Judging
from memoryd.ledger.foreign import ONLY_A_PAGE
from memoryd.text.content import measure_overlap

REPAIR = "repair"  # the job name of such a question


def judge(judging: Judging, form: str, read: Callable[[Reply], Iterable[Claim]]) -> Generator[Ask, Reply, Judging]:
    """Ask all questions about claims, send refused claims back once, and return the judging with all answers.

    Args:
        judging: the judging of the claims.
        form: an example of the job's grammar for the author.
        read: returns the claims of a reply to the repair.
    """
    judging = yield from judging.ask_reader()
    if refused := judging.fixable():
        answer = yield _question(refused, judging.context.judges.repair, form)
        judging = yield from judging.replace_claims(pair_claims(refused, read(answer))).ask_reader()
    return judging


def _question(refused: Sequence[JudgedClaim], instructions: str, form: str) -> Ask:
    shown: dict[str, QuotedPiece] = {}
    sources: dict[str, str] = {}  # by entry: the original sentences, by which the reader judges
    lines = []
    for one in refused:
        cites = ", ".join(line.id for line in one.lines) or "nothing"
        why = f"{one.why}: {one.token}" if one.token else one.why
        lines.append(f"{one.claim.text} [{cites}] — {why}")
        for held in one.cited:
            first = held.piece.lines[0]
            shown[held.piece.id] = QuotedPiece(held.piece.id, first.speaker, "", first.at or None, held.piece.text)
            if held.piece.behind and ONLY_A_PAGE not in held.piece.text:
                sources[held.piece.id] = " ".join(f"{line.speaker}: {line.text}" for line in held.evidence)
    context = [("refused", "\n".join(lines)), *((f"source of {name}", text) for name, text in sources.items())]
    return Ask(REPAIR, f"{instructions.strip()}\n\n{form}", tuple(shown.values()), tuple(context))


def pair_claims(refused: Sequence[JudgedClaim], claims: Iterable[Claim]) -> list[Claim]:
    """Return the reworded claims, each with the properties of the refused claim whose citations it shares."""
    left = list(refused)
    found = []
    for claim in claims:
        pieces = {cite.partition(".")[0] for cite in claim.cites}
        ranked = sorted(
            left, key=lambda one: (-len(pieces & _pieces(one)), -measure_overlap(claim.text, one.claim.text))
        )
        if ranked and (not pieces or pieces & _pieces(ranked[0]) or len(left) == 1):
            was = ranked[0].claim
            left.remove(ranked[0])
            found.append(replace(was, text=claim.text, cites=claim.cites or was.cites))
    return found


def _pieces(judged: JudgedClaim) -> set[str]:
    return {one.piece.id for one in judged.cited} | {cite.partition(".")[0] for cite in judged.claim.cites}
