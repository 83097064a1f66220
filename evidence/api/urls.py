"""Every route under ``/v1``."""

from django.urls import path, re_path

from evidence.api.openapi import OpenApiView
from evidence.api.views.aggregate import AggregateView
from evidence.api.views.blobs import BlobsView, BlobView
from evidence.api.views.collectors import IngestView, StateView
from evidence.api.views.connectors import (
    ConnectorsView,
    ConnectorView,
    OwnerConnectionsView,
    OwnerConnectionView,
)
from evidence.api.views.event_subscriptions import (
    EventSubscriptionsView,
    EventSubscriptionView,
    EventTestView,
)
from evidence.api.views.public import UnknownRouteView
from evidence.api.views.record import FieldWindowView, RecordView
from evidence.api.views.records import RecordsView
from evidence.api.views.schema import SchemaView, StreamsView, StreamView
from evidence.api.views.search import HybridSearchView, SearchView, SemanticSearchView

urlpatterns = [
    path("openapi.json", OpenApiView.as_view()),
    path("schema", SchemaView.as_view()),
    path("streams", StreamsView.as_view()),
    path("streams/<str:stream>", StreamView.as_view()),
    path("streams/<str:stream>/records", RecordsView.as_view()),
    path("streams/<str:stream>/aggregate", AggregateView.as_view()),
    path("streams/<str:stream>/records/<path:record_id>/field-window", FieldWindowView.as_view()),
    path("streams/<str:stream>/records/<path:record_id>", RecordView.as_view()),
    path("blobs", BlobsView.as_view()),
    path("blobs/<path:blob_id>", BlobView.as_view()),
    path("search", SearchView.as_view()),
    path("search/semantic", SemanticSearchView.as_view()),
    path("search/hybrid", HybridSearchView.as_view()),
    path("connectors", ConnectorsView.as_view()),
    path("connectors/<path:connector_id>", ConnectorView.as_view()),
    path("event-subscriptions", EventSubscriptionsView.as_view()),
    path("event-subscriptions/<str:subscription_id>", EventSubscriptionView.as_view()),
    path("event-subscriptions/<str:subscription_id>/test-event", EventTestView.as_view()),
    path("ingest/<str:stream>", IngestView.as_view()),
    path("owner/connections", OwnerConnectionsView.as_view()),
    path("owner/connections/<str:connection_id>", OwnerConnectionView.as_view()),
    path("state/<path:connector_id>", StateView.as_view()),
    # Everything else, line breaks too, which a dot would not match.
    re_path(r"^[\s\S]*$", UnknownRouteView.as_view()),
]
