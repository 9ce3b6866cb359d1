"""Words in their forms: what is known again as the same word, and what is not."""

import pytest

from memoryd.text.wording import find_stem

FORMS = """
build builds building
test tests tested testing
commit commits committed committing
plan plans planned planning
need needs needed
run runs running
log logs logged
delete deletes deleted
migrate migrates migrated migrating
request requests requested
implement implements implemented
session sessions
client clients
server servers
process processes processed
class classes
query queries queried
study studies studying
wohne wohnt wohnen
spiele spielt spielen
aime aimes aimez
живу живет
"""


@pytest.mark.parametrize("forms", FORMS.strip().splitlines())
def test_all_forms_of_a_word_have_one_stem_with_which_each_begins(forms):
    stems = {find_stem(form) for form in forms.split()}
    assert len(stems) == 1
    assert all(form.startswith(stems.copy().pop()) for form in forms.split())


def test_short_words_and_others_stay_apart():
    words = ("test", "text", "build", "bill", "plan", "plant", "run", "runtime", "day", "date", "log", "login", "class")
    assert len({*map(find_stem, words)}) == len(words)
