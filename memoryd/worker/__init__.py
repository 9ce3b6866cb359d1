"""Do heavy work in a child process that ends when it is idle: tokenizer, secret scanner, embeddings, model calls.

This package holds the child, the side that starts it, and a pool of them. It does not decide what is counted, scanned
or asked.

Open `client.py` first.
"""
