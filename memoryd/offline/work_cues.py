"""List cues of work: wording that shows the weight of a line of a working session, and its section.

English is covered best, then the most common words of German, French, Spanish and Chinese. `work` uses each cue as one
feature of many, so no cue decides alone. `work_cues.txt` has the wordings.
"""

import re

from memoryd.text.patterns import read_patterns

_PATTERNS = read_patterns(__name__, "work_cues.txt")
CAUSE = re.compile(_PATTERNS["cause"], re.IGNORECASE)
CHOSEN = re.compile(_PATTERNS["chosen"], re.IGNORECASE)
DONE = re.compile(_PATTERNS["done"], re.IGNORECASE)
CHANGES = re.compile(_PATTERNS["changes"], re.IGNORECASE)
STAYS = re.compile(_PATTERNS["stays"], re.IGNORECASE)
ABANDONED = re.compile(_PATTERNS["abandoned"], re.IGNORECASE)
STATE = re.compile(_PATTERNS["state"], re.IGNORECASE)
OFFERS = re.compile(_PATTERNS["offers"], re.IGNORECASE)
PROPOSES = re.compile(_PATTERNS["proposes"], re.IGNORECASE)
ALTERNATIVE = re.compile(_PATTERNS["alternative"], re.IGNORECASE)
ADVISES = re.compile(_PATTERNS["advises"], re.IGNORECASE)
PLANS = re.compile(_PATTERNS["plans"], re.IGNORECASE)
HEDGES = re.compile(_PATTERNS["hedges"], re.IGNORECASE)
STEERS = re.compile(_PATTERNS["steers"], re.IGNORECASE)
ASKS_ONLY = re.compile(_PATTERNS["asks only"], re.IGNORECASE)
WONDERS = re.compile(_PATTERNS["wonders"], re.IGNORECASE)
POSTPONES = re.compile(_PATTERNS["postpones"], re.IGNORECASE)
INQUIRES = re.compile(_PATTERNS["inquires"], re.IGNORECASE)
TESTED = re.compile(_PATTERNS["tested"], re.IGNORECASE)
NOTHING_OPEN = re.compile(_PATTERNS["nothing open"], re.IGNORECASE)
EXCLAIMS = re.compile(_PATTERNS["exclaims"], re.IGNORECASE)
DIAGNOSES = re.compile(_PATTERNS["diagnoses"], re.IGNORECASE)
REJECTS = re.compile(_PATTERNS["rejects"], re.IGNORECASE)
RETRACTS = re.compile(_PATTERNS["retracts"], re.IGNORECASE)
SETTLES = re.compile(_PATTERNS["settles"], re.IGNORECASE)
FORBIDS = re.compile(_PATTERNS["forbids"], re.IGNORECASE)
JOKES = re.compile(_PATTERNS["jokes"], re.IGNORECASE)
MUSES = re.compile(_PATTERNS["muses"], re.IGNORECASE)
REFERS = re.compile(_PATTERNS["refers"], re.IGNORECASE)
PROGRESS = re.compile(_PATTERNS["progress"])
INSTRUCTS = re.compile(_PATTERNS["instructs"], re.IGNORECASE)
PENDING = re.compile(_PATTERNS["pending"], re.IGNORECASE)
THANKS = re.compile(_PATTERNS["thanks"], re.IGNORECASE)
CAPITAL = re.compile(_PATTERNS["capital"])
LEANS = re.compile(_PATTERNS["leans"], re.IGNORECASE)
DECISION_MARK = re.compile(_PATTERNS["decision mark"], re.IGNORECASE)
FINDING_MARK = re.compile(_PATTERNS["finding mark"], re.IGNORECASE)
GOAL_MARK = re.compile(_PATTERNS["goal mark"], re.IGNORECASE)
CHOOSES = re.compile(_PATTERNS["chooses"])
LISTED = re.compile(_PATTERNS["listed"], re.MULTILINE)
