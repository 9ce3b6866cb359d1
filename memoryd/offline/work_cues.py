"""List cues of work: wording that shows the weight of a line of a working session, and its section.

English is covered best, then the most common words of German, French, Spanish and Chinese. `work` uses each cue as one
feature of many, so no cue decides alone. `work_cues.txt` has the wordings.
"""

import re

from memoryd.text.patterns import read_patterns

# The cues whose case matters, and the one that looks at each line; the others may be written in either case.
_FLAGS = {"progress": 0, "capital": 0, "chooses": 0, "listed": re.MULTILINE}
WORK_CUES = {
    name: re.compile(pattern, _FLAGS.get(name, re.IGNORECASE))
    for name, pattern in read_patterns(__name__, "work_cues.txt").items()
}
