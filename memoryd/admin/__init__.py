"""Serve the admin page, which shows people in a browser what the memory does.

Only people with the right to see it get an agent's content. Like the other interfaces, it consists of tables of pages
and acts over `requests`. It does not read the database itself and decides nothing about memory. Only the process that
serves the page imports it. `requests/views.py` alone decides what a person may see, and `links.py` who the person is.

Open `server.py` first.
"""
