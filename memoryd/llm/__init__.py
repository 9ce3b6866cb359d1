"""Ask a model: one question to one server that speaks OpenAI's chat completions, within deadlines.

This package holds the request, the parsing of the answer, the kinds of failure, and the circuit breaker. It does not
choose who answers, reserve tokens or retry (`running`), and the offline backend is elsewhere (`offline`).

Open `openai_chat.py` first.
"""
