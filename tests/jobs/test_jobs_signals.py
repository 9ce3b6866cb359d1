"""Signals of messages: what takes back or ends something that was so, and what says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs.signals import Signal, find_signals, is_retraction, says_nothing

RETRACTED = """
Please forget that I live in Ghent. | please forget that my sister is called Eve | Forget what I said about tea. |
Could you forget that I work nights? | You can forget about my old address. | OK, forget my phone number. |
Thanks! Now please just forget that I like tea | Delete my birthday from your memory. |
I don't work at Acme anymore. | I do not work at St. Mary's any more | We aren't using Jenkins any longer. |
I no longer drink coffee. | I can't eat gluten anymore, sadly. | Our staging server is not in Oslo anymore. |
My dog died. | my dog Rex has passed away last week | Sadly, my old cat is dead | Our grandmother just died. |
I live in Bruges now, not in Ghent. | in Bruges now, not in Ghent | I am now in Bruges, not in Ghent |
The office is on the third floor now, not on the second. | We're not in Ghent but in Bruges now. |
Now I live in Bruges, not in Ghent. | I want you to forget my birthday. |
Jetzt wohne ich in Brügge, nicht in Gent. | Ich arbeite nicht mehr bei Siemens. | Wir haben keinen Hund mehr. |
Bitte vergiss, dass ich in Köln wohne. | Vergiss bitte, was ich über Tee gesagt habe. |
Vergessen Sie bitte, dass ich rauche. | Mein Hund ist gestorben. | Unsere Katze ist leider tot. |
Ich wohne jetzt in Brügge, nicht in Gent. | Ich trinke keinen Kaffee mehr |
Je ne travaille plus chez Renault. | Je n'habite plus à Lyon. | Oublie que j'habite à Gand. |
S'il te plaît, oublie que je fume | Peux-tu oublier que j'ai un chien ? | Mon chien est mort. |
Ma grand-mère est décédée hier. | J'habite à Bruges maintenant, pas à Gand. | Je n'ai plus de voiture. |
Maintenant j'habite à Bruges, pas à Gand. |
Ya no trabajo en Telefónica. | Olvida que vivo en Gante. | Por favor, olvida lo que dije del té. |
Mi perro murió. | Mi abuela ha fallecido. | Vivo en Brujas ahora, no en Gante. | Ahora en Brujas, no en Gante. |
Non lavoro più alla Fiat. |
Non più a Roma, ormai. | Não mais em Lisboa. | Dimentica che vivo a Gand. | Per favore dimentica quello che ho detto. |
Il mio cane è morto. | Mia nonna è mancata ieri. | Adesso abito a Bruges, non a Gand. | Ora a Bruges, non a Gand |
Não trabalho mais na Petrobras. | Já não moro em Gante. | Esqueça que eu moro em Gante. |
Por favor, esquece o que eu disse. | Meu cachorro morreu. | Agora em Bruges, não em Gante. |
Ik werk niet meer bij Philips. | Ik heb geen hond meer. | Vergeet dat ik in Gent woon. |
Vergeet alsjeblieft wat ik zei. | Mijn hond is overleden. | Ik woon nu in Brugge, niet in Gent. |
Я больше не работаю в Яндексе. | Я уже не живу в Генте. | Забудь, что я живу в Генте. |
Забудьте, пожалуйста, что я курю. | Моя собака умерла. | Умер мой кот. | Я теперь в Брюгге, а не в Генте. |
我不在谷歌工作了。 | 我不再喝咖啡。 | 我们没有狗了。 | 请忘记我住在根特。 | 你可以忘掉我的旧地址。 |
我的狗死了。 | 我奶奶去世了,我的猫也去世了。 | 我现在在布鲁日,不在根特。 |
もうグーグルで働いていません。 | もうコーヒーは飲まない | ゲントに住んでいることは忘れてください。 |
私の犬が死にました。 | うちの猫が亡くなった。 | 今はブルージュで、ゲントではない。 |
저는 더 이상 삼성에서 일하지 않아요. | 제가 겐트에 산다는 것을 잊어 주세요. | 우리 개가 죽었어요.
"""  # noqa: RUF001

HELD = """
Don't forget that I live in Ghent. | please do not forget that I work nights | Never forget that my key expires. |
I forgot that I had a meeting. | I always forget that the key expires. | Did you forget that I live here? |
Let's not forget that Ben is away. | I don't want you to forget my birthday. | Forget it, let us use Postgres. |
If I don't work there anymore, tell me. | Don't you work at Acme anymore? | When my dog died, I was ten. |
Does the build no longer pass? | Make sure the test does not fail anymore. | I don't need any more examples. |
No more than three retries. | My server died again. | My build process died with an error. | The process died. |
Do it now, not later. | Send it now, not tomorrow. | It's not in main yet. | I live in Bruges. |
Remember that I live in Ghent. | The job is dead. | Not in Ghent. | What happens when a pod is no longer ready? |
Vergiss nicht, dass ich in Köln wohne. | Ich habe vergessen, dass ich einen Termin habe. | Nicht mehr als drei. |
Ich vergesse immer, dass der Schlüssel abläuft. | Arbeitest du nicht mehr dort? | Mehr Tests, bitte. |
Wenn ich nicht mehr hier wohne, sag es mir. | Vergessen Sie nicht, dass ich rauche. |
N'oublie pas que j'habite à Gand. | J'oublie que j'ai un chien. | J'ai oublié que c'était lundi. |
Je ne veux pas plus que trois tests. | Je n'aime pas non plus le thé. | Il est plus grand. |
Il oublie que je fume. | Tu n'habites plus à Lyon ? |
No olvides que vivo en Gante. | Se me olvida que tengo perro. | Olvidé que era lunes. | Ya tengo un perro. |
¿Ya no trabajas en Telefónica? | No más de tres. |
Non dimenticare che vivo a Gand. | Ho dimenticato che era lunedì. | Non più di tre test. | Non lavori più qui? |
Voglio più test. | Non voglio più di tre test. |
Não esqueça que eu moro em Gante. | Não se esqueça que eu fumo. | Esqueci que era segunda. |
Não quero mais de três. | Quero mais testes. | Ele esquece que eu fumo. |
Vergeet niet dat ik in Gent woon. | Ik vergeet dat ik een hond heb. | Niet meer dan drie. |
Ik ben vergeten dat het maandag is. | Werk je niet meer bij Philips? |
Не забудь, что я живу в Генте. | Я забыл, что сегодня понедельник. | Не больше трёх. |
Ты больше не работаешь там? |
别忘了我住在根特。 | 不要忘记我住在根特。 | 我忘了我的密码。 | 不用了,谢谢。 | 我住在布鲁日。 | 受不了 |
私がゲントに住んでいることを忘れないでください。 | 会議を忘れていました。 | もう少し説明してください。 |
もう一度お願いします。 |
제가 겐트에 산다는 것을 잊지 마세요. | 회의를 잊었어요. | 저는 브뤼헤에 살아요.
"""  # noqa: RUF001


@pytest.mark.parametrize("text", [one.strip() for one in RETRACTED.split("|")])
def test_a_plain_retraction_is_recognised_and_hints_at_a_correction(text):
    assert is_retraction(text)
    assert is_retraction(f"Good morning!\n{text}\nSo much for that.")
    assert Signal.CORRECTION in find_signals(text)


@pytest.mark.parametrize("text", [one.strip() for one in HELD.split("|")])
def test_what_asks_supposes_or_reminds_retracts_nothing(text):
    assert not is_retraction(text)


PIECES = [*" .,?!\n'", "not ", "any more", "forget ", "that ", "now ", "in ", "不", "了", "ne ", "plus", "my ", "died"]


@given(st.lists(st.sampled_from(PIECES)).map("".join) | st.text())
def test_any_text_is_judged(text):
    assert is_retraction(text) in {True, False}


@pytest.mark.parametrize("words", ["please ", "now just also ", "no longer "])
def test_a_long_line_of_the_same_words_is_read_in_one_go(words):
    assert not is_retraction(f"if {words * 10_000}")
    assert not is_retraction(f"{words * 10_000}?")


@pytest.mark.parametrize(
    ("text", "is_empty"),
    [
        ("thanks, that's all for today", True),
        ("That\u2019s it for now. Good night!", True),
        ("Danke, das war's für heute. Bis morgen!", True),
        ("今天就到这里\uff0c谢谢", True),
        ("Good, enough for today.", True),
        ("OK, let's stop for today.", True),
        ("Thanks, see you on Monday!", True),
        ("Gut, das reicht für heute. Tschüss!", True),
        ("Good. Then go live tomorrow.", False),
        ("That's enough retries, use three.", False),
        ("Call it a day_rate.", False),
        ("That's all that we store in the cache.", False),
        ("See you tomorrow. Jonas starts at nine.", False),
        ("Gern. Bis dann!", True),
        ("Bis Mittwoch.", False),
    ],
)
def test_a_farewell_says_nothing_unless_it_says_something_else(text, is_empty):
    assert says_nothing(text) is is_empty
