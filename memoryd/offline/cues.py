"""List cues: wording that shows what a statement is, such as a time, a name, an outcome, small talk or narration.

English comes first; times and the first person are also covered in the commonest other languages. `salience` weighs
each cue as one feature of many. So a statement in a language without cues here is still ranked by its rare words.
Patterns in lower case are for lowercased text.
"""

import re

SELF = re.compile(
    r"\b(?:i|i'm|i've|i'd|i'll|my|mine|we|we're|we've|our|us|me|ich|wir|mein\w*|je|nous|mon|ma|yo|mi|nosotros)\b|我|"
    r"私|僕|俺|나는|저는"
)
TIME = re.compile(
    r"\d|[一二三四五六七八九十]+[年月日号号点時个個人岁歳]|昨|明天|今天|今日|去年|明年|来年|上周|下周|先週|来週|周末|"
    r"\b(?:jan(?:uary)?|feb(?:ruary)?|march|april|june|july|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|"
    r"dec(?:ember)?|(?:mon|tues|wednes|thurs|fri|satur|sun)day|yesterday|today|tonight|tomorrow|last|next|ago|week|"
    r"weekend|month|year|years|since|daily|weekly|monthly|birthday|anniversary|"
    r"gestern|heute|hier|ayer|mañana|demain|woche|semaine|semana)\b"
)
NAME = re.compile(r"(?<=[\w,;:'’\"“(] )[A-ZÀ-ÞА-Я][\w'’&-]*|\b[A-Z]{2,}\b")  # noqa: RUF001
QUOTE = re.compile(r"[\"“「『«][^\"”」』»]{2,}[\"”」』»]|`[^`]{2,}`")
# That a fault is gone, for lowercased text. Hopes, plans and open tasks do not report a fix.
FIXED = re.compile(
    r"^(?!.*(?:\b(?:not|once|if|should|will|until|when|still|to be|try|might)\b|n't\b))(?:.*\b)?"
    r"(?:(?:is|are|been|now|i|i've|we|we've|have) (?:now )?(?:fixed|solved|resolved|repaired)\b"
    r"|(?:passes|pass|works?|succeeds?) (?:now|again)\b|now (?:passes|pass|works?|succeeds?)\b)"
    r"|^(?:(?:it's |that's |all )?(?:fixed|solved|resolved|repaired)\b|behoben\b|gelöst\b|corrigé\b|résolu\b|"
    r"arreglado\b|solucionado\b|risolto\b|corretto\b|resolvido\b|corrigido\b|opgelost\b|исправлено\b|已修复|修好了|修正しました|수정했)"
)
# Statements that are always true, in the present tense; "I never saw it" is a story.
STANDING = re.compile(
    r"\b(?:is|are|be|gets?) (?:always|never)\b"
    r"|(?<!was )(?<!were )(?<!had )(?<!has )(?<!have )\b(?:always|never) "
    r"(?!(?:was|were|had|did|saw|went|got|came|knew|took|made|said|thought|felt|met|told|gave|found|\w+ed)\b)\w"
    r"|\b(?:immer|niemals?|stets|toujours|jamais|siempre|nunca|jamás|sempre|altijd|nooit)\b"
    r"|\b(?:всегда|никогда)\b|总是|總是|永远|永遠|始终|必ず|常に|絶対に|決して|항상|절대"
)
CALLED = re.compile(
    r"(?:(?:^|[.!?]\s+)(?i:hey|hi|hello|thanks|thank you|wow|yeah|yes|sure|congrats|bye|absolutely|totally)[, ]+|, )"
    r"([A-Z][a-z]+)(?=[!.?,])"
)
PROCESS = re.compile(
    r"^(?:(?:now|next|first|then|ok(?:ay)?|so|great|good|perfect|excellent|and)[,.!]?\s+)*(?:let me\b|let's\b|i'll\b|"
    r"i will\b|i'm going to\b|i am going to\b|i need to\b|i can see\b|i see\b|now i\b|looking at\b|here(?:'s| is|"
    r" are)\b|checking\b|running\b|i understand\b|i have a (?:good|clear|better)\b|would you like\b|feel free\b|"
    r"if you(?:'d| would) like\b|do you want\b|let us\b|time to\b|wait[,.]|hmm|you're (?:absolutely )?right|"
    r"good (?:point|question|catch|idea)\b|the file (?:is|has)\b|(?:you can|to) (?:now )?(?:test|try|run|verify|see)\b"
    r"|this (?:will|should) (?:now )?(?:show|work|allow)\b)",
    re.IGNORECASE,
)
# That the user ends the work for now, and may continue elsewhere, for lowercased text. It says nothing about the work.
HALTS = re.compile(
    r"^(?:(?:ok(?:ay)?|thanks|danke|gut)[,.!]? )?(?:please |bitte )?"
    r"(?:(?:let's |we )?stopp?|pause|leave it|that's (?:it|all|enough)|enough|hör auf|das (?:reicht|war's)|schluss)"
    r"(?: (?:here|now|there|at that|for now|for today|today|hier|jetzt|für heute))*[,;.!]?"
    r"(?: (?:and |und )?(?:i'll|i will|we'll|i'm|ich)\b[^.;!?]{0,60})?[.!]*$"
)
IDENTIFIER = re.compile(r"`[^`]+`|\b\w+[./_]\w+|\b[a-z]+[A-Z]\w+|--\w+")
