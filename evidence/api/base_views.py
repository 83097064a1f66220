"""Base views of `/v1`: check the version, bearer and parameters, then run the handler behind the gate.

A view works the same over HTTP and for the MCP adapter in this process, which passes the scope that
its transport authenticated. What each route takes is declared in `evidence.parameters`; the syntax is that
of the reference: `filter[field][gte]=1`, `fields=a,b` or repeated, `streams[]=a`.
"""

import hashlib
import logging
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import orjson
from django.core.exceptions import SuspiciousOperation
from django.db import transaction
from django.http import HttpRequest, QueryDict, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.http import parse_etags, quote_etag
from rest_framework.authentication import BaseAuthentication
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import override

from evidence import limits
from evidence.access.gate import Gate
from evidence.access.quotas import charge_call, check_call_quota
from evidence.access.records import VisibleRecords
from evidence.access.scope import GrantTerms, Scope, TokenKind, select_fields
from evidence.access.sql import SQL
from evidence.access.tokens import note_use
from evidence.api import error_responses
from evidence.api.authentication import BearerAuthentication, challenge
from evidence.api.error_responses import permission_offer, record_refused_call
from evidence.errors import (
    AmbiguousConnection,
    ApiException,
    AuthenticationRequired,
    ConnectionNotFound,
    ConnectorMismatch,
    GrantConsumed,
    InvalidArgument,
    InvalidRequest,
    RateLimitExceeded,
    ResourceLimit,
    UnsupportedVersion,
    WrongTokenKind,
)
from evidence.ledger.entries import DisclosedAnswer, DisclosedItem, record_disclosure, recorded_read
from evidence.models.owners import act_for, acting_for, read_for
from evidence.parameters import (
    TEXT_CHARS,
    Connections,
    KeyedValue,
    OneConnection,
    ParameterError,
    Parameters,
    Projection,
    Selection,
)
from evidence.read import expansion
from evidence.read.expansion import Expansion
from evidence.read.filters import parameter_name, parse_filters, parse_period


def read_body(request: Request, *, max_bytes: int) -> bytes:
    """Return the request body. Raises ResourceLimit when it is longer than `max_bytes`."""
    content: bytes = request._request.read(max_bytes + 1)  # noqa: SLF001 - before any parser
    if len(content) > max_bytes:
        raise ResourceLimit(message=f"The request body takes at most {max_bytes} bytes.")
    return content


def read_object(request: Request, *, max_bytes: int) -> dict[str, Any]:
    """Return the request body, parsed as a JSON object.

    Raises ResourceLimit or InvalidRequest.
    """
    try:
        content = orjson.loads(read_body(request, max_bytes=max_bytes))
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(message="The request body is not JSON.") from error
    if not isinstance(content, dict):
        raise InvalidRequest(message="The request body takes a JSON object.")
    return content


class OrjsonRenderer(BaseRenderer):
    """Render UTF-8 JSON, several times faster than DRF's renderer on pages of records."""

    media_type = "application/json"
    format = "json"
    charset = None

    @override
    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        response = (renderer_context or {}).get("response")
        return b"" if data is None else getattr(response, "measured", None) or orjson.dumps(data)


logger = logging.getLogger(__name__)

Json = dict[str, Any]
READ_METHODS = frozenset({"GET", "HEAD"})
PDPP_VERSION = "2026-04-06"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class Described(NamedTuple):
    """How the OpenAPI document describes a method: the schema and status of its answer, and its request body.

    `takes` is the media type of the body, or the schema of a JSON body.
    """

    answers: str = ""
    status: str = "200"
    takes: str = ""


class PublicView(APIView):
    """A view without authentication and without personal data."""

    authentication_classes: Sequence[type[BaseAuthentication]] = ()
    permission_classes = ()
    throttle_classes = ()
    renderer_classes = (OrjsonRenderer,)
    parameters: ClassVar[type[Parameters]] = Parameters
    owner_methods: ClassVar[Mapping[str, type[Parameters]]] = {}
    """Methods that require an owner token, and the query parameters that each takes."""
    described: ClassVar[Mapping[str, Described]] = {}
    invalid_parameter: ClassVar[type[ApiException]] = InvalidRequest
    missing_parameter: ClassVar[type[ApiException]] = InvalidRequest
    query: Parameters
    request_id = ""
    error: ApiException | None = None
    """The error that the response reports."""

    @override
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if request.headers.get("PDPP-Version", PDPP_VERSION) != PDPP_VERSION:
            raise UnsupportedVersion(
                message=f"This server supports PDPP-Version {PDPP_VERSION}.", param="PDPP-Version"
            )
        super().initial(request, *args, **kwargs)
        if not hasattr(self, str(request.method).lower()):
            self.http_method_not_allowed(request, *args, **kwargs)
        self.query = read_parameters(
            request._request,  # noqa: SLF001 - its query string
            self.owner_methods.get(str(request.method), self.parameters),
            invalid=self.invalid_parameter,
            missing=self.missing_parameter,
        )
        self.warnings: list[ApiWarning] = first_warnings(self.query)
        self.url = request.get_full_path()

    def link(self, **changes: str) -> str:
        """Return the URL of this request with some parameters changed."""
        query = self.request.query_params.copy()
        for name, value in changes.items():
            query[name] = value
        return f"{self.url.partition('?')[0]}?{query.urlencode()}"

    @override
    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        sent_id = request.headers.get("Request-Id", "")
        is_valid = _REQUEST_ID.fullmatch(sent_id)
        self.request_id = sent_id if is_valid else f"req_{secrets.token_hex(10)}"
        return super().initialize_request(request, *args, **kwargs)

    @override
    def get_exception_handler(self) -> Any:
        return error_responses.handle_exception

    @override
    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Request-Id"] = response["X-Request-Id"] = self.request_id
        if response.status_code == 401:
            response["WWW-Authenticate"] = challenge(request)
        if not isinstance(self.error, UnsupportedVersion):
            response["PDPP-Version"] = PDPP_VERSION
        response.setdefault("Cache-Control", "private, no-store")
        return response


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler of a read returns: the body, as JSON or as a response, and what it discloses.

    ``counted`` is the number of records behind a number that the body shows, such as a sum.
    """

    body: Json | HttpResponseBase
    disclosed: Sequence[DisclosedItem] = ()
    counted: int | None = None


class UnrecordedAnswerError(Exception):
    """A handler of a read returned a response that does not say what it discloses: a bug."""


class GrantedView(PublicView):
    """A view behind the gate. With `owner_only` it requires an owner token.

    A read looks the token up, reads, and adds to the ledger in one transaction. A response that
    cannot be recorded is not sent.

    With `conditional`, responses have an ETag, and a matching `If-None-Match` returns 304. They
    depend on the token, so only the client may cache them.
    """

    authentication_classes = (BearerAuthentication,)
    route: ClassVar[str]
    """The name of the route in the ledger."""
    owner_only = False
    collector_methods: ClassVar[frozenset[str]] = frozenset()
    """Methods that accept the token of a collector too."""
    conditional = False
    charges_all_grants = False
    """Whether a response without records counts for every affected grant, or for the first grant."""
    caller: Scope | None = None
    is_authorized = False
    answer: Answer | None = None
    """What the handler returned, also where the response is a 304: the client learns that it is current."""

    @override
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        with acting_for(None):
            response = self._dispatch_for_owner(request, *args, **kwargs)
        if isinstance(response, StreamingHttpResponse) and self.caller is not None:
            chunks = cast("Iterable[bytes]", response.streaming_content)
            response.streaming_content = read_for(self.caller.owner_id, chunks)
        return response

    def _dispatch_for_owner(
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        response = self._dispatch_recorded(request, *args, **kwargs)
        if self.error is not None and 400 <= response.status_code < 500:
            record_refused_call(
                self.caller,
                self.error,
                route=self._ledger_route,
                request_id=self.request_id,
                stream=str(kwargs.get("stream", "")),
                parameters=frozenset(self.parameters.model_fields),
            )
            if self.caller is not None and isinstance(response, Response):
                response.data["error"] |= permission_offer(self.caller, self.error)
        return response

    def _dispatch_recorded(
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        if request.method not in READ_METHODS:
            return super().dispatch(request, *args, **kwargs)
        try:
            with recorded_read():
                response = super().dispatch(request, *args, **kwargs)
                self._record(response)
                return response
        except (GrantConsumed, RateLimitExceeded) as error:
            withheld: ApiException = error
        except Exception as error:
            logger.exception("A response could not be recorded in the ledger and was withheld.")
            withheld = error_responses.ledger_failure(error)
        return self._error_response(withheld, request, *args, **kwargs)

    def _error_response(
        self, error: ApiException, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """Return the error as the response, without running the handler again."""
        if not isinstance(self.request, Request):  # the transaction never began
            self.request = self.initialize_request(request, *args, **kwargs)
            self.headers = self.default_response_headers
        response = self.handle_exception(error)
        return self.finalize_response(self.request, response, *args, **kwargs)

    @property
    def _ledger_route(self) -> str:
        is_mcp = hasattr(self.request._request, "pdpp_scope")  # noqa: SLF001
        return f"{'mcp' if is_mcp else 'rest'} {self.route}"

    def filter_fields(self, visible: VisibleRecords) -> frozenset[str]:
        """Return the fields that select records: of the filters, and the time of `after` and `before`."""
        query = self.query
        if not isinstance(query, Selection):
            return frozenset()
        names = frozenset(name for keys, _ in query.filter or () for name in keys[:1])
        if "stream" not in self.kwargs or (query.after is None and query.before is None):
            return names
        return names | {str(visible.stream.event_time_field)}

    def _affected_grants(self, stream: str | None, connection_id: str | None) -> list[GrantTerms]:
        """Return the grants of a stream or connection, or all grants if the call names neither."""
        return [
            grant for grant in self.scope.grants
            if any(
                stream in (None, terms.name)
                and (connection_id is None or connection_id in terms.connection_ids)
                for terms in grant.streams
            )
        ]  # fmt: skip

    @property
    def _charged_grants(self) -> Sequence[GrantTerms]:
        """The grants that a response without records counts for."""
        return (self.affected_grants if self.charges_all_grants else ()) or self.scope.grants[:1]

    def _record(self, response: HttpResponseBase) -> None:
        """Record what a response discloses, before its transaction ends.

        An error that discloses nothing is charged as a call, so quotas also limit guessing.
        """
        if response.status_code >= 500:
            transaction.set_rollback(True)
        elif self.answer is not None:
            self._add_entry(response, self.answer.disclosed, counted=self.answer.counted)
        elif response.status_code < 400 and self.answer is None:
            raise UnrecordedAnswerError(type(self).__name__)
        elif self.error is not None and self.error.disclosed_records:
            fields = self.error.disclosed_fields
            items = [DisclosedItem(*key, fields=fields) for key in self.error.disclosed_records]
            self._add_entry(response, items)
        elif self.is_authorized and self.answer is None and response.status_code != 429:
            charge_call(self.scope, self._charged_grants, now=timezone.now())

    def _add_entry(
        self,
        response: HttpResponseBase,
        items: Sequence[DisclosedItem],
        *,
        counted: int | None = None,
    ) -> None:
        answer = DisclosedAnswer(
            route=self._ledger_route,
            request_id=self.request_id,
            items=items,
            charged_grants=[str(grant.grant_id) for grant in self._charged_grants],
            size_bytes=_response_bytes(response),
            counted=counted,
        )
        record_disclosure(self.scope, answer, now=timezone.now())

    @override
    def perform_authentication(self, request: Request) -> None:
        scope = getattr(request._request, "pdpp_scope", None)  # noqa: SLF001 - DRF's own name
        if scope is None:
            super().perform_authentication(request)
            scope = request.auth
        if isinstance(scope, Scope):
            act_for(scope.owner_id)
            self.caller = scope

    @override
    def check_permissions(self, request: Request) -> None:
        scope = self.caller
        if scope is None:
            raise AuthenticationRequired
        needs_owner = self.owner_only or request.method in self.owner_methods
        if scope.kind is TokenKind.COLLECTOR:
            if request.method not in self.collector_methods:
                raise WrongTokenKind(
                    message="A collector stores records, files and state of its connections only."
                )
            note_use(scope.token_id, now=timezone.now())
        elif needs_owner and scope.kind is not TokenKind.OWNER:
            raise WrongTokenKind(message="This route requires an owner token.")

    @override
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        assert self.caller is not None  # noqa: S101 - else check_permissions has refused
        self.scope = scope = self.caller
        query = self.query
        named = query.connection_id if isinstance(query, OneConnection) else None
        self.affected_grants = self._affected_grants(kwargs.get("stream"), named)
        self.charges_all_grants = self.charges_all_grants or "stream" in kwargs or named is not None
        if any(grant.limits for grant in self.affected_grants):
            check_call_quota(scope, self.affected_grants, now=timezone.now())
        if request.method not in READ_METHODS:  # reads are charged with what they disclose
            charge_call(scope, self._charged_grants, now=timezone.now())
        self.gate = Gate(scope, connector_id=getattr(query, "connector_id", None))
        self.is_authorized = True

    @override
    def finalize_response(
        self, request: Request, response: Any, *args: Any, **kwargs: Any
    ) -> Response:
        if isinstance(response, Answer):
            self.answer, body = response, response.body
            response = body if isinstance(body, HttpResponseBase) else Response(body)
        if self.conditional and response.status_code == 200:
            tag = quote_etag(hashlib.sha256(orjson.dumps(response.data)).hexdigest()[:32])
            known = parse_etags(request.headers.get("If-None-Match", ""))
            if tag in (each.removeprefix("W/") for each in known):
                response = Response(status=304)
            response["ETag"] = tag
            response["Cache-Control"] = "private, no-cache"
            response["Vary"] = "Authorization"
        return super().finalize_response(request, response, *args, **kwargs)


def _response_bytes(response: HttpResponseBase) -> int:
    """Return the size of the JSON body or of the announced stream. A HEAD response has none.

    The renderer sends the body of a success as it was measured. Errors may still get an offer.
    """
    if isinstance(response, Response):
        content = b"" if response.data is None else orjson.dumps(response.data)
        response.measured = content if response.status_code == 200 else None  # type: ignore[attr-defined]
        return len(content)
    return int(response.get("Content-Length", "0")) if response.streaming else 0


MAX_VALUE_CHARS, MAX_VALUES_NAMED = 100, 3
_NAME = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
ParametersT = TypeVar("ParametersT", bound=Parameters)


@dataclass(frozen=True, slots=True)
class ApiWarning:
    """An item of `meta.warnings` (contract 3.0)."""

    code: str
    message: str
    param: str
    detail: Mapping[str, object] | None = None


def read_parameters(
    request: HttpRequest,
    model: type[ParametersT],
    *,
    invalid: type[ApiException],
    missing: type[ApiException],
) -> ParametersT:
    """Return the parameters of a request. `connection_id` is also that of its deprecated name.

    Raises InvalidRequest for a parameter that the route does not have, `missing` or `invalid` for one
    that is missing or invalid, and InvalidArgument where both names of a connection are given and differ.
    """
    try:
        query = request.GET
    except SuspiciousOperation as error:
        raise InvalidRequest(message="The query has too many parameters.") from error
    try:
        parameters = model.parse_query(_query_values(query))
    except ParameterError as error:
        if error.kind == "unknown":
            names = ", ".join(sorted(model.model_fields))
            raise InvalidRequest(
                message=f"Unknown parameter {error.name[:64]!r}.",
                param=error.name[:64],
                next_step=f"This route takes: {names}."
                if names
                else "This route takes no parameters.",
            ) from None
        refusal = missing if error.kind == "missing" else invalid
        raise refusal(message=str(error), param=error.name) from None
    if isinstance(parameters, OneConnection) and parameters.connector_instance_id is not None:
        if parameters.connection_id not in (None, parameters.connector_instance_id):
            raise InvalidArgument(
                message="connection_id and connector_instance_id name different connections.",
                param="connector_instance_id",
            )
        parameters.connection_id = parameters.connector_instance_id
    return parameters


def first_warnings(parameters: Parameters) -> list[ApiWarning]:
    """Return the warnings that the parameters themselves call for."""
    if not isinstance(parameters, OneConnection) or parameters.connector_instance_id is None:
        return []
    return [
        ApiWarning(
            "deprecated_alias_used",
            "connector_instance_id is deprecated; use connection_id.",
            "connector_instance_id",
        )
    ]


def clamp(name: str, number: int, *, most: int, warnings: list[ApiWarning]) -> int:
    """Return `number`, lowered to `most` with a warning."""
    if number > most:
        detail = {f"max_{name}": most, f"requested_{name}": number}
        warnings.append(ApiWarning("limit_clamped", f"{name} was lowered to {most}.", name, detail))
    return min(number, most)


def page_limit(limit: int | None, warnings: list[ApiWarning]) -> int:
    """Return the number of items of a page, lowered to PAGE_MAX with a warning."""
    return clamp("limit", limit or limits.PAGE_DEFAULT, most=limits.PAGE_MAX, warnings=warnings)


def resolved(visible: VisibleRecords) -> dict[str, object]:
    """Return the stream and the connections that a cursor is bound to, however they were named."""
    ids = sorted(facts.connection_id for facts in visible.connections)
    return {"stream": visible.stream.name, "connection_id": ids, "connector_id": None}


def _query_values(query: QueryDict) -> dict[str, list[KeyedValue]]:
    """Return the values of a query string by parameter. Raises InvalidRequest where it is malformed."""
    found: dict[str, list[KeyedValue]] = {}
    for full_name, values in query.lists():
        match = _NAME.fullmatch(full_name)
        name = match.group(1) if match else full_name
        if match is None or "\x00" in full_name:
            raise InvalidRequest(message="A parameter name is malformed.", param=name[:64])
        keys = tuple(match.group(2)[1:-1].split("][")) if match.group(2) else ()
        if len(keys) > limits.QUERY_DEPTH_MAX:
            raise InvalidRequest(message=f"{name} is nested too deeply.", param=name[:64])
        for value in values:
            if "\x00" in value:
                raise InvalidRequest(message=f"{name} contains a NUL character.", param=name[:64])
            if len(value) > TEXT_CHARS:
                raise InvalidRequest(
                    message=f"{name} takes at most {TEXT_CHARS} characters.", param=name[:64]
                )
        found.setdefault(name, []).extend((keys, value) for value in values)
    return found


def parse_conditions(visible: VisibleRecords, query: Selection) -> list[SQL]:
    """Return the conditions of `filter`, `after` and `before`."""
    if query.filter is None and query.after is None and query.before is None:
        return []
    conditions = parse_filters(visible, query.filter or ())
    return [*conditions, *parse_period(visible, query.after, query.before)]


def unmatched_warnings(unmatched: Sequence[KeyedValue]) -> list[ApiWarning]:
    """Name each filter that alone leaves no visible record, with the first of its values."""
    values: dict[str, list[str]] = {}
    for keys, value in unmatched:
        values.setdefault(parameter_name(keys), []).append(value[:MAX_VALUE_CHARS])
    return [
        ApiWarning(
            "filter_matches_nothing",
            f"No visible record meets {name}={' or '.join(map(repr, given[:MAX_VALUES_NAMED]))}"
            f"{f' or {len(given) - MAX_VALUES_NAMED} more' if given[MAX_VALUES_NAMED:] else ''} alone.",
            name,
        )
        for name, given in values.items()
    ]


def future_warning(count: int, tomorrow: str) -> ApiWarning:
    """Say how many records of a list are dated in the future, which puts them first."""
    records, come = ("1 record lies", "comes") if count == 1 else (f"{count} records lie", "come")
    return ApiWarning(
        "records_in_future",
        f"{records} in the future and {come} first; before={tomorrow} leaves them out.",
        "before",
        {"count": count, "before": tomorrow},
    )


def parse_fields(visible: VisibleRecords, query: Projection) -> frozenset[str] | None:
    """Return the fields that `fields` or `view` selects, or None for all."""
    return select_fields(visible, fields=query.fields, view=query.view)


def parse_expand(query: Projection, gate: Gate, visible: VisibleRecords) -> list[Expansion]:
    """Return the relations that `expand` names, with their limits."""
    names, maximums = query.expand or (), query.expand_limit or ()
    if not names and not maximums:
        return []
    return expansion.parse_expand(gate, visible, names=names, limits=maximums)


def target_connection_id(
    scope: Scope, query: OneConnection, *, connector: str | None = None
) -> str:
    """Return the named connection, or the only connection of the connector, which a path may name.

    Raises InvalidRequest, ConnectorMismatch, ConnectionNotFound or AmbiguousConnection.
    """
    named = query.connection_id
    if isinstance(query, Connections):
        connector = connector or query.connector_id
    if named is not None:
        if scope.kind is TokenKind.COLLECTOR and named not in scope.connections:
            raise ConnectionNotFound(param="connection_id")
        _check_same(scope, named, connector)
        return named
    if not connector:
        raise InvalidRequest(
            message="Name the connector with connector_id, or a connection with connection_id.",
            param="connector_id",
        )
    connections = [
        facts
        for facts in scope.connections.values()
        if scope.sources[facts.source_pk].is_called(connector)
    ]
    if not connections:
        raise ConnectionNotFound(
            message=f"The connector {connector[:64]!r} has no connection.", param="connector_id"
        )
    if len(connections) > 1:
        raise AmbiguousConnection(
            [
                {
                    "connection_id": facts.connection_id,
                    "display_name": facts.display_name,
                    "connector_key": scope.sources[facts.source_pk].connector_key,
                }
                for facts in connections
            ]
        )
    return connections[0].connection_id


def _check_same(scope: Scope, connection_id: str, connector: str | None) -> None:
    """Raise ConnectorMismatch; the write itself rejects an unknown connection."""
    facts = scope.connections.get(connection_id)
    if connector is None or facts is None:
        return
    if not scope.sources[facts.source_pk].is_called(connector):
        raise ConnectorMismatch(param="connector_id")
