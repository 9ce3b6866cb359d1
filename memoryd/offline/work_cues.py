"""List cues of work: wording that shows the weight of a line of a working session, and its section.

English comes first, with the commonest words of German, French, Spanish and Chinese. `work` weighs each cue as one
feature of many. None of them decides alone.
"""

import re

CAUSE = re.compile(
    r"\b(?:because|since|due to|so that|caused by|root cause|the reason|otherwise|turns out|that's why"
    r"|the (?:real )?(?:issue|problem|culprit|trick|bug|cause) (?:is|was))\b"
    r"|^(?:cause|fix|reason|why|gotcha|caveat|limitation)\b[^.]{0,20}:"
    r"|\b(?:weil|damit|sonst|parce que|porque|perché)\b|因为|因為|由于|原因|因此|避免|ため|ので",
    re.IGNORECASE,
)
# In an assistant's line: something was chosen, and the line does not only say how something is.
CHOSEN = re.compile(
    r"\b(?:decided|chose|chosen|agreed|switched (?:to|from)|settled on)\b|\bnow (?:uses?|keeps?|lives?)\b"
    r"|统一|改为|移除|保留|采用|不再",
    re.IGNORECASE,
)
DONE = re.compile(
    r"^\W*(?:(?:i(?:'ve| have)?|we(?:'ve| have)?) (?:also |now )?)?(?:added|created|fixed|removed|updated|implemented|"
    r"replaced|renamed|moved|changed|switched|configured|refactored|simplified|restored|baked|committed|pushed|merged|"
    r"wired|extended|made|set up)\b|^(?:已|新增)",
    re.IGNORECASE,
)
# Wording that reports a change; and wording about the past, a cause or a condition, which stays true after a change.
CHANGES = re.compile(
    r"\b(?:now|no longer|instead|fix(?:ed|es)?|implemented|replaced|removed|changed|switched|restored|migrated"
    r"|converted|refactored|simplified|jetzt|nicht mehr|ersetzt|entfernt|geändert|behoben|désormais|maintenant"
    r"|ne (?:\w+ )?plus|remplacé|corrigé|ahora|ya no|cambiado|corregido|теперь|больше не|исправлен\w*|заменен\w*)\b"
    r"|现在|已改|不再|已修复",
    re.IGNORECASE,
)
STAYS = re.compile(
    r"\b(?:was|were|had|did|didn't|wasn't|weren't|couldn't|fixed|added|implemented|replaced|removed|changed|switched"
    r"|updated|because|due to|since|without|unless|only|cannot|must|war|waren|hatte|weil|ohne|nur|était|avait|parce que"
    r"|sans|seulement|estaba|porque|sin|solo|был\w*|потому|без|только)\b|因为|由于|原因|只",
    re.IGNORECASE,
)
ABANDONED = re.compile(
    r"\b(?:revert(?:ed|ing)|rolled back|abandoned (?:it|this|that|the|after|because)|gave up"
    r"|didn't (?:work|help)|did not (?:work|help)|doesn't work"
    r"|still fails|no effect|dead end)\b|没有成功|行不通",
    re.IGNORECASE,
)
STATE = re.compile(
    r"\b\d+ (?:tests?|passed|passing|failed|examples?)\b|\btests? (?:now )?pass|\bcoverage\b|\b(?:un)?committed\b"
    r"|\bpushed\b|\b(?:on|the) branch\b|\bPR #?\d|\bmerged\b|\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b|\bdeployed\b",
    re.IGNORECASE,
)
OFFERS = re.compile(
    r"\b(?:would you like|do you want|want me to|if you(?:'d| would)? (?:like|want|prefer)|let me know|should i|shall i"
    r"|feel free|happy to)\b|是否要|要不要|若你|如果你|需要我",
    re.IGNORECASE,
)
# Begins a list of things that nobody has agreed to yet.
PROPOSES = re.compile(
    r"\b(?:i(?:'d| would)? (?:also )?(?:recommend|suggest|propose)|recommend(?:ation|ed)s?|suggest(?:ion|ed)s?"
    r"|proposals?|options|approaches|alternatives|ideas|consider|remaining|could|would|you can"
    r"|want me to|if you (?:want|like)|next (?:steps?|upgrades?|up))\b|建议|方案|可选",
    re.IGNORECASE,
)
# One of several alternatives, by its letter.
ALTERNATIVE = re.compile(
    r"^(?:option )?[A-D][:.)] |^(?:option|approach|alternative|scenario) (?:[A-D]|\d)\b", re.IGNORECASE
)
# A piece of advice that is a whole sentence.
ADVISES = re.compile(
    r"\b(?:i(?:'d| would) (?!(?:like|love|say|expect|need|be|rather|had|have|already|\w+ed)\b)\w+"
    r"|i (?:also )?(?:recommend|suggest|propose)"
    r"|my (?:recommendation|suggestion)|recommended:|next i(?:'d| would))\b|我建议",
    re.IGNORECASE,
)
PLANS = re.compile(r"^我?(?:将|会|先|准备|正在)|^(?:接下来|现在)|^(?:ich werde|je vais|voy a)\b", re.IGNORECASE)
HEDGES = re.compile(
    r"\b(?:might|maybe|perhaps|possibly|probably|likely|could(?! (?:not|never))|i suspect|i think|i assume"
    r"|seems?|appears?|looks? like|let's see|hmm|may (?:be|have|not)|(?:i|we) (?:should|need to|can|would|must)"
    r"|will now (?:work|pass|correctly|properly)|should (?:now )?work|just works|\d\d ?% (?:chance|sure|certain)"
    r"|would (?:be|have|also|need)|vermutlich|wahrscheinlich|ich (?:vermute|glaube|denke)|je (?:soupçonne|pense|crois)"
    r"|sans doute|probablement|creo que|probablemente|похоже|вероятно|думаю|подозреваю)\b"
    r"|可能|也许|应该是|似乎|怀疑|大概",
    re.IGNORECASE,
)
# How users say what they want, besides plain orders: wishes, limits, choices, and properties that something must have.
STEERS = re.compile(
    r"\bi (?:do |really |only |just )?(?:want|need)\b (?!to (?:know|see|understand|try|check))"
    r"|\b(?:should(?:n't)?|must(?:n't)?|needs? to (?:be|stay|work|support)|(?:do|does)(?:n't| not) (?:want|need|like)"
    r"|(?:want|like|love|prefer) (?:\w+ ){0,6}(?:to be|as|only|in|instead|rather|that|support)|rather"
    r"|i(?:'d| would) (?:love|like)|prefer|instead|keep"
    r"|let(?:'s| us) (?!see|go back|look|check|wait|continue|start|begin|test|talk|discuss|find|think|hope|know)\w+"
    r"|(?:stay|stick|go) with|leave (?:\w+ ){1,4}(?:alone|as|out|in)|drop (?:the|it|that|support)|enough"
    r"|i(?:'ve| have)? decided|we(?:'ve| have)? (?:decided|agreed)"
    r"|(?:don't|do not|never) (?:touch|push|merge|deploy|delete|remove|rename|edit|change|use|add|commit|log|store)"
    r"|(?:as|by) (?:the )?default|(?:make|be) sure (?:to|that|the|it|we|you)|remember that|no need"
    r"|not (?:\w+ ){1,4}but|(?:didn't|don't) find|one at a time|is (?:great|better|fine)|agree)\b"
    r"|(?:^|[.!?;,] )(?:please |also |and |then )*(?:use|call|name|put|place|store|avoid|stick)\b"
    r"|\b(?:is|are|it's|lives?|cloned|stored?) (?:at|in|into|to|under) [`~@]?\S*[/.]\w"
    r"|应该|不要|没有必要|保留|统一|直接|必须|不需要|\b(?:sollte|muss|lieber|statt)\b",
    re.IGNORECASE,
)
ASKS_ONLY = re.compile(
    r"^(?:\W*(?:ok(?:ay)?|so|and|also|hey \w+)[,.]? )*(?:what|why|how|where|when|which|who|does|do|is|are|am|have you"
    r"|has|did)\b",
    re.IGNORECASE,
)
# A question that only asks for information, unlike one that politely orders: "Can you please change …?"
WONDERS = re.compile(
    r"^(?:\W*(?:ok(?:ay)?|so|and|also|or|but|hmm+|wait)[,.]? )*(?:do you (?:think|know)|would it"
    r"|(?:what|why|how|where|when|which|who|does|do|is|are|am|has|did|should|shouldn't|isn't|aren't|don't)\b)"
    r"|[吗呢嗎][^\w]*$",
    re.IGNORECASE,
)
# A user's own note about a task for a later session.
POSTPONES = re.compile(r"^\W*to-?dos?\b|\b(?:for|leave (?:it|that) (?:for|to)) (?:next time|tomorrow)\b", re.IGNORECASE)
# Asks for an answer now. If a wish follows in the same sentence, it is part of the question.
INQUIRES = re.compile(
    r"\b(?:can|could|would|will) you (?:please )?(?:help me (?:to )?(?:understand|see|find out|figure)|explain|list"
    r"|tell me|show me|describe|summari[sz]e|walk me"
    r"|give me (?:an?|your|some) (?:idea|opinion|overview|summary))\b",
    re.IGNORECASE,
)
# The results of tests; only the last one counts.
TESTED = re.compile(
    r"\btests? (?:now )?(?:pass|are (?:green|passing))|\b\d+ tests?\b|\bcoverage\b|\b(?:all|tests are) green\b",
    re.IGNORECASE,
)
NOTHING_OPEN = re.compile(r"[:\uff1a] *(?:none|nothing|n/?a|keine|无|なし)\W*$", re.IGNORECASE)
EXCLAIMS = re.compile(
    r"[\U0001f300-\U0001faff\u2705\u2728]|!$|^(?:actually|wait|ah|oh|perfect|great)\b"
    r"|\b(?:complete(?:ly)?|fully|comprehensive|robust|seamless\w*|production[- ]ready)\b"
    r"|^\W*(?:cleane?r?|better|well-tested|improved|easier|simpler|consistent|maintainab\w+)\b[^.]{0,30}:",
    re.IGNORECASE,
)
# A suspected cause of a fault during the search for it; of several about one thing, only the last can be right.
DIAGNOSES = re.compile(
    r"\bthe (?:real |actual |main |root )?(?:issue|problem|bug|cause|culprit|error|reason)\b.{0,40}\b(?:is|was)\b"
    r"|\b(?:isn't|aren't|is not|not) (?:being|working|serving|showing|appearing|loading|properly|correctly)\b"
    r"|^(?:the )?(?:issue|problem|cause)\b|问题(?:是|在于)",
    re.IGNORECASE,
)
# The beginning of a user's message that rejects the assistant's last statement, or that changes an earlier wish.
_HESITATES = r"^\W*(?:(?:hm+|um|oh|ok(?:ay)?|yes|well|but|sorry|ah|wait|äh|nun|bueno|ну)\W+)*"
REJECTS = re.compile(
    rf"{_HESITATES}(?:(?:no(?:pe|n)?|nah|nein|nee|нет|не)[,;:.!\u2014-]|(?:no,? )?sorry\b|不对|不是(?!很)|错了|(?:wrong"
    r"|not (?:with|in|like|by|for|the|that|via|(?-i:[A-Z]{2}))|that(?:'s| is) (?:wrong|not (?:right|true))|falsch"
    r"|das (?:stimmt nicht|ist falsch)|pas (?:avec|comme|par)|c'est faux|eso no|est[áa] mal|не(?:верно|правильно))\b)",
    re.IGNORECASE,
)
RETRACTS = re.compile(
    rf"{_HESITATES}(?:no\W+)?(?:change of plans?|actually,? (?:no|not|use|make|let's|keep|do|don't|we|i|the|it's|wait)"
    r"|on second thoughts?|scra(?:tch|p) that|forget (?:that|what)|(?:i(?:'ve)? )?changed? my mind|planänderung"
    r"|doch (?:lieber|nicht so)|en fait (?:non|mett\w+)|cambio de planes?|передумал\w*)(?!\w)|^\W*(?:等等|改成|算了)",
    re.IGNORECASE,
)
# Says that the latest result is fine, or that a fault is gone; it rejects nothing.
SETTLES = re.compile(
    r"\b(?:any ?more|no longer|nicht mehr|ya no|больше не|al(?:l|les) gut|all good|works?|great|perfecto?|thank\w*"
    r"|danke|gracias|merci|marche|funktioniert|fixed it|no (?:problem|objections?|errors?|worries))\b|不再|谢谢|很好",
    re.IGNORECASE,
)
FORBIDS = re.compile(r"^\W*(?:(?:and|also|but|please|bitte)\W+)*(?:do not|don't|never|stop)\b", re.IGNORECASE)
JOKES = re.compile(
    r"\b(?:(?:ha){2,}h?|(?:he){2,}|lol|lmao|rofl|(?<!not )(?<!no )(?:kidding|joking)|nur (?:ein )?(?:scherz|spaß)"
    r"|c'est une blague|(?:ja){3,}|es broma)\b|[\U0001f602\U0001f923]|哈哈|开玩笑|шучу|шутка\b",
    re.IGNORECASE,
)
# A user's thought aloud.
_ASKED = r"(?![^.!?\n]{0,200}\b(?:please|instead|bitte)\b)[^.!?\n]{0,200}\?"
MUSES = re.compile(
    rf"\b(?:maybe|perhaps|someday|one day|vielleicht|peut-être|quizás?|tal vez|может быть|sollten? (?:wir|ich|man)"
    rf"|(?:should|shouldn't|could|couldn't) (?:we|i|one))\b{_ASKED}|(?:要不要|会不会)[^。\n]{{0,60}}[?\uff1f吗]"
    r"|(?:^|[.!?] )(?:(?:and|or|so|i) )*(?:what if we|wonder(?:ing)? (?:if|whether|how|why))\b",
    re.IGNORECASE,
)
# Refers to something that only the conversation itself shows.
REFERS = re.compile(
    r"\b(?:you (?:suggested|said|mentioned|proposed|did)|(?:do|go(?:ing)? for|option) (?:\d|it|that|this)\b"
    r"|this (?:part|one|now)|yes to all|the (?:first|second|third|last) (?:one|option)|as (?:above|before)"
    r"|same (?:here|thing)|the above|this (?:doc )?page|that (?:test|message|error|file|line|comment|approach|idea)"
    r"|here(?:'s| is| are) (?:a|an|the|my|some)\b.{0,60}\b(?:list|table|plan|summary))\b",
    re.IGNORECASE,
)
# The assistant's current or next step, which says less than the result.
PROGRESS = re.compile(
    r"^(?:(?:so|now|next|then|first|also|one \w+),? )*(?:(?:i'm|i am|we're) (?:\w+ )?\w+ing|i (?:notice|see|can see))\b"
)
# The assistant's announcements, anywhere in a sentence, and remaining tasks while the work goes on. Both are outdated
# when the session ends.
PENDING = re.compile(
    r"\b(?:i|we)(?:'ll| will| am going to| are going to|'(?:m|re) going to)\b"
    r"|\b(?:i'm|i am|we're) (?:(?:also|now|just|still|only) )?(?!using\b)\w+ing\b"
    r"|\b(?:remaining|still (?:has|have|shows?|reports?|fails?|needs?|contains?|one|two|three|\d+)"
    r"|new (?:bug|issue|error|failure)"
    r"|(?:ci|tests?|builds?|lint|checks?|pipeline) (?:\w+ ){0,3}(?:is|are) (?:still |now )?(?:failing|red|broken))\b",
    re.IGNORECASE,
)
THANKS = re.compile(
    r"\b(?:thanks?|thank you|great|excellent|perfect|awesome|amazing|well done|nice|cool|good (?:job|work)|works?|danke"
    r"|merci|gracias)\b|谢谢|很好|不错",
    re.IGNORECASE,
)
CAPITAL = re.compile(r"(?<=\s)[A-Z][A-Za-z]+")
LEANS = re.compile(
    r"^(?:this|that|it|these|those|they|but|however|otherwise|then|also|so|and|or|which|if (?:this|that|these|it))\b",
    re.IGNORECASE,
)
# Labels that people and agents put into their notes to name the kind of a line.
DECISION_MARK = re.compile(r"(?<![\w@./])@decision\b", re.IGNORECASE)
FINDING_MARK = re.compile(r"(?<![\w@./])@(?:discovery|pattern|bug)\b", re.IGNORECASE)
GOAL_MARK = re.compile(r"^\W*goal alignment\b\W*:", re.IGNORECASE)
# A choice by number or letter: "let's do 1+2", "option B", "on 3: …"; and the list that it may choose from.
CHOOSES = re.compile(
    r"(?:^|\b(?i:do|on|options?|go (?:with|for)|choose|pick|take|use|number)\s)[#(]?"
    r"((?:\d|[A-D])(?:\s?(?:\+|,|&|and)\s?(?:\d|[A-D]))*)(?=[\s.,:;!?)]|$)(?!\.\d| [a-z]+s\b)"
)
LISTED = re.compile(
    r"^[ \t]{0,3}(?:[-*] )?(?:\*\*)?(?:Option )?(\d|[A-D])(?:[.):]| [\u2013\u2014-])[ \t*]+(?=\S)([^\n*]{4,160})",
    re.MULTILINE,
)
