"""List cues: wording that shows the kind of a statement, such as a time, a name, an outcome, small talk or narration.

English is covered best. Cues of time and of the first person also exist in the most common other languages. `salience`
uses each cue as one feature of many, so a statement in any other language is still ranked by its rare words. `cues.txt`
has the wordings. Patterns in lower case are for lowercased text.
"""

import re

from memoryd.text.patterns import read_patterns
from memoryd.text.word_lists import list_words

# The cues whose case matters; the others may be written in either case.
_EXACT = frozenset({"self", "time", "name", "quote", "fixed", "standing", "called", "halts", "identifier"})
_PATTERNS = read_patterns(__name__, "cues.txt", retractions="|".join(list_words("retractions")))
CUES = {name: re.compile(one, 0 if name in _EXACT else re.IGNORECASE) for name, one in _PATTERNS.items()}
