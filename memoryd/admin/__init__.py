"""Serve the admin page: what the memory does, for people in a browser; content only to those who may see it.

An interface like the others: tables of pages and acts over `requests`. It does not read the database itself, decides
nothing about memory, and is imported only by the process that serves the page. What a person may see is decided by
`requests/views.py` alone, and who the person is by `links.py`.

Open `server.py` first.
"""
