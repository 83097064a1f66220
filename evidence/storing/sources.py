"""Finding a source by what callers call it."""

from django.db.models import Q

from evidence.models.sources import Source
from evidence.refusals import NotFound


def declared_source(connector_id: str, *, owner_id: str, param: str = "connector_id") -> Source:
    """The source of that key or absolute id. Raises ``NotFound`` where none is declared."""
    # No name has a NUL character, and no column can be compared with one.
    name = connector_id.replace("\0", " ")
    called = Q(connector_key=name) | Q(source_id=name)
    sources = Source.unscoped.select_related("current_declaration").filter(owner_id=owner_id)
    source = sources.filter(called, current_declaration__isnull=False).first()
    if source is None:
        raise NotFound(message=f"No source {connector_id[:64]!r} is declared.", param=param)
    return source
