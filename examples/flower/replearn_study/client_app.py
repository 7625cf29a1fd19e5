"""A site, on a SuperNode."""

from replearn.flower import client_app

app = client_app()
