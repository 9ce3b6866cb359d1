"""Pairs of statements in six languages that use the same words and say the opposite."""

REVERSED = [
    ("I prefer tabs over spaces.", "I prefer spaces over tabs."),
    ("Anna reports to Ben.", "Ben reports to Anna."),
    ("Ich mag Tabs lieber als Leerzeichen.", "Ich mag Leerzeichen lieber als Tabs."),
    ("Prefiero tabuladores a espacios.", "Prefiero espacios a tabuladores."),
    ("Je préfère les tabulations aux espaces.", "Je préfère les espaces aux tabulations."),
    ("Я предпочитаю табы пробелам.", "Я предпочитаю пробелам табы."),
    ("我喜欢制表符胜过空格。", "我喜欢空格胜过制表符。"),
    ("Move the data from Postgres to MySQL.", "Move the data from MySQL to Postgres."),
]
