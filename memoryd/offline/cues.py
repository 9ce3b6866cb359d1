"""List cues: wordings that show the kind of a statement (`cues.txt`), or what a line of work is (`work_cues.txt`).

English is covered best. Cues of time and of the first person also exist in the most common other languages, and so do
the assistant's steps and offers. Other cues of work exist mostly in German, French, Spanish and Chinese. Most cues are
one feature of many, and some decide alone: small talk and narration are left out. Without a cue, a statement is still
ranked by its rare words. Patterns in lower case are for lowercased text.
"""

import re

from memoryd.text.word_lists import compile_patterns, list_words

# Case matters only in these cues.
_EXACT = ("self", "time", "name", "quote", "fixed", "standing", "called", "halts", "identifier")
CUES = compile_patterns(__name__, "cues.txt", dict.fromkeys(_EXACT, 0), retractions="|".join(list_words("retractions")))

# Case also matters in these cues of work. One of them is matched at the beginning of each line.
WORK_CUES = compile_patterns(__name__, "work_cues.txt", {"progress": 0, "chooses": 0, "listed": re.MULTILINE})
