"""The coordinator, on a SuperLink."""

from replearn.flower import server_app

app = server_app()
