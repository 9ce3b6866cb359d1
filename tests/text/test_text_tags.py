"""Tags that people put into a text."""

import pytest

from memoryd.text.tags import find_tags


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#Login and #login, #ui/forms", ("login", "ui/forms")),
        ("@decision use it; @Bug", ("decision", "bug")),
        ("fixes #42, see a#b, https://x.org/#part, &#x41; ##twice", ()),
        ("`#code` and ```#inline```", ()),
        ("~~~\n#fence\n~~~\n#real", ("real",)),
        ("# Title #no\n   ## More @decision\ntext #yes-", ("yes",)),
        ("me@decision.org @decisions x.@bug", ()),
        ("#" + "a" * 65, ()),
    ],
)
def test_tags_of_what_is_said(text, tags):
    assert find_tags(text) == tags
