"""Views without a token: resource metadata (RFC 9728), a skill for agents, the API index and unknown routes."""

import hashlib
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views import View
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence import limits
from evidence.api.authentication import requested_url
from evidence.api.base_views import PublicView
from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.errors import NotFound
from evidence.events.messages import CONTENT_TYPE, PDPP_VERSION, SECRET_PREFIX, SPEC_VERSION
from evidence.events.subscription_state import BUSY_STATUSES, GONE_STATUS
from evidence.models.events import Event
from evidence.parameters import EXTENSIONS
from evidence.read.changes import BEGINNING

RESOURCE_NAME = "PDPP personal records"
PROVIDER_CONNECT_VERSION = "0.1.0"


class ProtectedResourceView(PublicView):
    """Protected resource metadata (RFC 9728) of the resource at `path`; empty for `/v1`."""

    path = ""

    def get(self, request: Request) -> Response:
        origin = requested_url(request)
        return Response(
            {
                "resource": f"{origin}{self.path}",
                "resource_name": RESOURCE_NAME,
                "authorization_servers": [origin],
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["pdpp:read"],
                "pdpp_core_query_base": f"{origin}/v1",
                "pdpp_provider_connect_version": PROVIDER_CONNECT_VERSION,
                "pdpp_self_export_supported": not self.path,
                "pdpp_token_kinds_supported": self._kinds(),
                "pdpp_agent_discovery": _agents(origin),
            }
            | self._hints()
        )

    def _kinds(self) -> list[str]:
        return ["client", "mcp_package"] if self.path else ["owner", "client", "mcp_package"]

    def _hints(self) -> dict[str, Any]:
        if self.path:
            return {}
        return {
            limits.EXTENSIONS_MEMBER: EXTENSIONS,
            "pdpp_discovery_hints": {
                "schema_endpoint": "/v1/schema",
                "query_base": "/v1",
                "streams_endpoint_template": "/v1/streams/{stream}",
                "connectors_endpoint": "/v1/connectors",
                "changes_since_bootstrap": BEGINNING,
                "blob_indirection": f"data.{BLOB_REFERENCE}.fetch_url",
                "aggregate": {"endpoint_template": "/v1/streams/{stream}/aggregate"},
                "search": {
                    "endpoint": "/v1/search",
                    "scope_param": "streams[]",
                    "filter_requires_single_stream": True,
                },
            },
            "capabilities": {
                "lexical_retrieval": _lexical(),
                "client_event_subscriptions": _event_capability(),
            },
        }


SKILL = "read-personal-data"
SKILLS_PATH = "/.well-known/skills"


class SkillsView(PublicView):
    """The catalog of skills for agents: what to know before they read here."""

    def get(self, request: Request) -> Response:
        text = _skill(requested_url(request))
        described = text.partition("\ndescription: ")[2].partition("\n")[0]
        digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
        skill = {"name": SKILL, "description": described, "files": ["SKILL.md"], "digest": digest}
        return Response({"skills": [skill]})


class SkillView(View):
    """The skill itself, as Markdown."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(_skill(requested_url(request)), content_type="text/markdown")


def _skill(origin: str) -> str:
    return render_to_string("evidence/SKILL.md", {"origin": origin})


class IndexView(PublicView):
    """Return links to the API's entry points."""

    def get(self, request: Request) -> Response:
        return Response(
            {
                "object": "pdpp_discovery_index",
                "role": "resource_server",
                "resource_name": RESOURCE_NAME,
                "links": {
                    "well_known": "/.well-known/oauth-protected-resource",
                    "schema": "/v1/schema",
                    "core_query_base": "/v1",
                    "connectors": "/v1/connectors",
                    "mcp": "/mcp",
                },
            }
        )


def _agents(origin: str) -> dict[str, Any]:
    """Describe how an app gets a grant of its own, without an owner token."""
    return {
        "advisory": True,
        "recommended_flow": "pdpp connect",
        "skill": f"{origin}{SKILLS_PATH}/{SKILL}/SKILL.md",
        "skill_catalog": f"{origin}{SKILLS_PATH}/index.json",
        "skill_name": SKILL,
        "cli": {
            "bin_name": "pdpp",
            "connect_command": f"pdpp connect {origin}",
            "no_owner_token": True,
        },
        "mcp": {
            "endpoint": f"{origin}/mcp",
            "transport": "streamable_http",
            "setup_intent": "grant_scoped_read",
            "tool_surface": "profile_free_normal_read",
            "no_owner_token": True,
        },
    }


def _lexical() -> dict[str, Any]:
    return {
        "supported": True,
        "endpoint": "/v1/search",
        "cross_stream": True,
        "snippets": True,
        "cursor_supported": True,
        "count_supported": True,
        "default_limit": limits.PAGE_DEFAULT,
        "max_limit": limits.PAGE_MAX,
        "score": {
            "supported": True,
            "kind": "field_impact",
            "order": "higher_is_better",
            "value_semantics": "implementation_relative",
        },
    }


class UnknownRouteView(PublicView):
    """Return a JSON 404 for unknown routes under `/v1`, for every method."""

    @override
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise NotFound(message="No such route.", next_step="Start with GET /v1/schema.")

    def get(self, request: Request) -> Response:
        raise NotFound


def _event_capability() -> dict[str, Any]:
    """Return `capabilities.client_event_subscriptions` of the metadata document."""
    return {
        "supported": True,
        "endpoint": "/v1/event-subscriptions",
        "authority_kinds": ["client_grant"],
        "envelope": {
            "format": "cloudevents",
            "specversion": SPEC_VERSION,
            "pdppversion": PDPP_VERSION,
            "mode": "structured",
            "content_type": CONTENT_TYPE,
        },
        "event_types": [str(event_type) for event_type in Event.Type.values],
        "signing": {
            "scheme": "standard-webhooks",
            "algorithm": "hmac-sha256",
            "headers": ["webhook-id", "webhook-timestamp", "webhook-signature"],
            "signed_content": "{webhook-id}.{webhook-timestamp}.{raw body}",
            "secret_prefix": SECRET_PREFIX,
            "secret_overlap_seconds": limits.EVENT_SECRET_OVERLAP,
        },
        "delivery": _delivery_capability(),
        "verification": "post_with_challenge_echo",
        "max_subscriptions": limits.SUBSCRIPTIONS_PER_PACKAGE,
    }


def _delivery_capability() -> dict[str, Any]:
    return {
        "guarantee": "at_least_once",
        "max_attempts": 1 + len(limits.EVENT_RETRIES),
        "retry_schedule_seconds": list(limits.EVENT_RETRIES),
        "retry_jitter": limits.EVENT_JITTER,
        "timeout_seconds": limits.EVENT_TIMEOUT,
        "follows_redirects": False,
        "concurrency_per_receiver": 1,
        "coalescing": "one outstanding pdpp.records.changed per stream and connection",
        "retry_after": {
            "statuses": sorted(BUSY_STATUSES),
            "default_seconds": limits.EVENT_RETRY_AFTER,
            "max_seconds": limits.EVENT_RETRY_AFTER_MOST,
            "give_up_after_seconds": limits.EVENT_DEFERRED_MOST,
        },
        "disables_at_once": [GONE_STATUS],
    }
