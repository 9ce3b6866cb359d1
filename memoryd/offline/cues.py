"""List cues: wording that shows the kind of a statement, such as a time, a name, an outcome, small talk or narration.

English is covered best. Cues of time and of the first person also exist in the most common other languages. `salience`
uses each cue as one feature of many, so a statement in any other language is still ranked by its rare words. `cues.txt`
has the wordings. Patterns in lower case are for lowercased text.
"""

import re

from memoryd.text.patterns import read_patterns
from memoryd.text.word_lists import list_words

_PATTERNS = read_patterns(__name__, "cues.txt", retractions="|".join(list_words("retractions")))
SELF = re.compile(_PATTERNS["self"])
TIME = re.compile(_PATTERNS["time"])
NAME = re.compile(_PATTERNS["name"])
QUOTE = re.compile(_PATTERNS["quote"])
FIXED = re.compile(_PATTERNS["fixed"])
STANDING = re.compile(_PATTERNS["standing"])
CALLED = re.compile(_PATTERNS["called"])
PROCESS = re.compile(_PATTERNS["process"], re.IGNORECASE)
HALTS = re.compile(_PATTERNS["halts"])
IDENTIFIER = re.compile(_PATTERNS["identifier"])
ANNOUNCES = re.compile(_PATTERNS["announces"], re.IGNORECASE)
AT_HAND = re.compile(_PATTERNS["at hand"], re.IGNORECASE)
PASSING = re.compile(_PATTERNS["passing"], re.IGNORECASE)
ELSEWHERE = re.compile(_PATTERNS["elsewhere"], re.IGNORECASE)
TAKES_BACK = re.compile(_PATTERNS["takes back"], re.IGNORECASE)
TAKES_BACK_LAST = re.compile(_PATTERNS["takes back last"], re.IGNORECASE)
ORDER = re.compile(_PATTERNS["order"], re.IGNORECASE)
PEOPLE = re.compile(_PATTERNS["people"], re.IGNORECASE)
WHY = re.compile(_PATTERNS["why"], re.IGNORECASE)
ERRAND = re.compile(_PATTERNS["errand"], re.IGNORECASE)
