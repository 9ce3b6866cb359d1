"""An agent that remembers: a chat by the OpenAI SDK, with memoryd's search and save as its tools.

usage: example_agent.py WORKSPACE MODEL QUESTION    (the server and its key as the SDK has them, $OPENAI_BASE_URL)
"""

import json
import sys
from dataclasses import asdict

from openai import OpenAI

import memoryd

ROLE = "You have a long-term memory. Search it before you answer; save what should outlast this conversation."


def tool(name: str, what: str, argument: str) -> dict:
    takes = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"type": "function", "function": {"name": name, "description": what, "parameters": takes}}


SEARCH = tool("memory_search", "Find what is remembered of earlier conversations.", "query")
SAVE = tool("memory_save", "Write a note into the memory.", "text")


def answer(client: OpenAI, model: str, memory: memoryd.Memory, question: str) -> str:
    calls = {"memory_search": lambda query: [asdict(hit) for hit in memory.search(query)], "memory_save": memory.save}
    messages = [{"role": "system", "content": ROLE}, {"role": "user", "content": question}]
    while True:
        said = client.chat.completions.create(model=model, messages=messages, tools=[SEARCH, SAVE]).choices[0].message
        if not said.tool_calls:
            return said.content or ""
        messages.append(said.to_dict())
        for call in said.tool_calls:
            result = calls[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})


if __name__ == "__main__":
    print(answer(OpenAI(), sys.argv[2], memoryd.Memory(sys.argv[1]), sys.argv[3]))  # noqa: T201 - it answers on standard output
