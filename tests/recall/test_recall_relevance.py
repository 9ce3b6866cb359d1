"""What is told unasked: only what holds enough of the prompt."""

import pytest

from memoryd.recall.query import parse
from memoryd.recall.relevance import is_about


@pytest.mark.parametrize(
    ("prompt", "text", "is_told"),
    [
        ("Please look at the staging server", "The staging servers moved.", True),
        ("Please look at the staging server", "The server of the café.", False),
        ("go on", "Go on with the tests.", False),
        ("why does get_user_name fail?", "get_user_name returns bytes.", True),
        ("open src/app.py", "It was src/app.py that failed.", True),
        ('what was "blue" again', "The blue one.", True),
        ("東京の天気", "東京の天気は晴れ。", True),
        ("東京の天気", "東京へ行く。", False),
        ("サーバー移転", "サーバーを移転した。", True),
        ("add a dark mode toggle in the corner", "The modern recorder.", False),
        ("write a test and run it", "Write the test, then run it.", False),
        ("write the release notes", "The notes of the release are short.", True),
        ("where did we write the report?", "We write reports in LaTeX.", True),
        ("Where is the copy made?", "It is a copy.", False),
        ("好的 继续", "好的 我们继续。", False),
        ("thanks, go on please", "Thanks, go on, please.", False),
        ("fix read-only", "The disk is read-only.", False),
        ("server server server", "The server.", False),
        ("rename create_list", "create_list returns a tuple.", True),
        ('what was "grün" for', "Die grüne Variante.", True),
        ("Wie war die Strategie für das Backup?", "Backupstrategie: jede Nacht.", True),
        ("why does the retry policy fail?", "RetryPolicyFactory gives up.", True),
        ("where did we write the report", "We write reports in LaTeX.", True),
        ("write the report", "We write reports in LaTeX.", False),
        ("wer muss das eigentlich für mich machen", "Der Test muss für alle laufen.", False),
        ("Wann ist mein Zahnarzttermin?", "Was ist mein Name, und wann?", False),
        ("Wo liegt der Testbericht für Redis?", "Der Testbericht von Redis.", True),
        ("pourquoi il faut que nous", "Il faut que nous restions.", False),
        ("why is there a comment about the car?", "A comment on the car.", True),
        ("", "anything", False),
    ],
)
def test_two_words_or_one_that_tells(prompt, text, is_told):
    assert is_about(text, parse(prompt), prompt) == is_told
