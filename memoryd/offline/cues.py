"""List cues: wordings that show the kind of a statement (`cues.txt`), or what a line of work is (`work_cues.txt`).

English is covered best. Cues of time and of the first person also exist in the most common other languages, and those
of work in German, French, Spanish and Chinese. `statements` and `work` use each cue as one feature of many, so no cue
decides alone, and a statement in any other language is still ranked by its rare words. Patterns in lower case are for
lowercased text.
"""

import re

from memoryd.text.word_lists import list_words, read_patterns

# The cues whose case matters; the others may be written in either case.
_EXACT = frozenset({"self", "time", "name", "quote", "fixed", "standing", "called", "halts", "identifier"})
_PATTERNS = read_patterns(__name__, "cues.txt", retractions="|".join(list_words("retractions")))
CUES = {name: re.compile(one, 0 if name in _EXACT else re.IGNORECASE) for name, one in _PATTERNS.items()}

# Of work, also one cue looks at each line.
_FLAGS = {"progress": 0, "capital": 0, "chooses": 0, "listed": re.MULTILINE}
WORK_CUES = {
    name: re.compile(pattern, _FLAGS.get(name, re.IGNORECASE))
    for name, pattern in read_patterns(__name__, "work_cues.txt").items()
}
