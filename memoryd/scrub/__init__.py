"""Turn text to redacted text: no secret is stored or sent, because none gets past here."""
