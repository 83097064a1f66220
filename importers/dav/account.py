"""Sign in to a CalDAV or CardDAV server, and list what the owner can choose."""

from urllib.parse import urljoin

from importers.core.source import Container, SourceRun
from importers.core.source_http import HttpClient, basic_authorization
from importers.dav.discovery import Service, collection_name, find_collections


def sign_in(run: SourceRun) -> HttpClient:
    authorization = basic_authorization(run.settings["user"], run.credential["password"])
    return HttpClient(run.network, run.settings["url"], authorization, run.hosts)


def list_collections(run: SourceRun, service: Service) -> list[Container]:
    with sign_in(run) as client:
        found = find_collections(client, service)
    here = urljoin(client.url, "/")
    return [
        # The path alone, unless another server has it.
        Container(f"/{each.url.removeprefix(here)}", collection_name(each), is_usual=True)
        if each.url.startswith(here)
        else Container(each.url, collection_name(each), is_usual=True)
        for each in found
    ]
