"""What every view under ``/v1`` has in common.

``GrantedView`` runs, in this order: version, bearer, unknown parameters, then the handler with a
gate in hand. It works the same whether the request came over HTTP or from the MCP adapter in this
process, which hands over the scope that its transport authenticated.
"""

import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import orjson
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from prometheus_client import Counter
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import override

from evidence.access.gate import Gate
from evidence.access.quotas import charge_call, concerned, refuse_used_up
from evidence.access.scope import GrantTerms, Scope, TokenKind
from evidence.api import error_responses
from evidence.api.authentication import BearerAuthentication
from evidence.api.disclosed_records import shown
from evidence.api.entity_tags import entity_tag, tags
from evidence.api.json_io import OrjsonRenderer
from evidence.api.query_parameters import Parameters
from evidence.api.refusal_log import note_refused, note_unlet
from evidence.errors import (
    AuthenticationRequired,
    GrantConsumed,
    RateLimitExceeded,
    Refusal,
    UnsupportedVersion,
    WrongTokenKind,
)
from evidence.ledger.entries import Shown
from evidence.ledger.writer import Answer, in_one_transaction, record

logger = logging.getLogger(__name__)

WITHHELD = Counter("pdpp_answers_withheld", "Answers that could not be written to the ledger")

READS = frozenset({"GET", "HEAD"})
PDPP_VERSION = "2026-04-06"
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class PublicView(APIView):
    """A view that shows nothing personal and asks nobody who they are."""

    authentication_classes: Sequence[type[BaseAuthentication]] = ()
    permission_classes = ()
    throttle_classes = ()
    renderer_classes = (OrjsonRenderer,)
    parameters: ClassVar[frozenset[str]] = frozenset()
    owner_methods: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Methods for the owner alone, where others are not, and the parameters that each takes."""
    request_id = ""
    refusal: Refusal | None = None
    """What the answer refuses, where it does."""

    @override
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if request.headers.get("PDPP-Version", PDPP_VERSION) != PDPP_VERSION:
            raise UnsupportedVersion(
                message=f"This server speaks PDPP-Version {PDPP_VERSION}.", param="PDPP-Version"
            )
        super().initial(request, *args, **kwargs)
        allowed = self.owner_methods.get(str(request.method), self.parameters)
        self.query = Parameters(request._request, allowed=allowed)  # noqa: SLF001

    @override
    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        asked = request.headers.get("Request-Id", "")
        self.request_id = asked if _REQUEST_ID.fullmatch(asked) else f"req_{secrets.token_hex(10)}"
        return super().initialize_request(request, *args, **kwargs)

    @override
    def get_exception_handler(self) -> Any:
        return error_responses.handle

    @override
    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Request-Id"] = response["X-Request-Id"] = self.request_id
        if response.status_code == 401:
            response["WWW-Authenticate"] = self._challenge(request)
        if not _is_unsupported_version(response):
            response["PDPP-Version"] = PDPP_VERSION
        response.setdefault("Cache-Control", "private, no-store")
        return response

    def _challenge(self, request: Request) -> str:
        challenge = BearerAuthentication().authenticate_header(request)
        sent = request.headers.get("Authorization", "").startswith("Bearer ")
        return f'{challenge}, error="invalid_token"' if sent else challenge


class GrantedView(PublicView):
    """A view behind the gate. ``owner_only`` ones refuse every other kind of token.

    What it answers is written to the ledger in the transaction that read it; what cannot be
    written down is not answered.

    ``conditional`` ones carry an ETag and answer 304 to a matching ``If-None-Match``; what they
    say depends on the token, so only the client itself may keep it.
    """

    authentication_classes = (BearerAuthentication,)
    owner_only = False
    conditional = False
    asks_all = False
    """Whether each grant was asked of that it is about, and not merely what there is."""
    withheld: Refusal | None = None
    caller: Scope | None = None
    is_let_in = False
    unchanged: Response | None = None
    """The whole answer, where a 304 stands for it: the client learns that it still holds."""
    unspoken = False
    """Set where the answer reaches nobody, because the request goes on waiting."""

    @override
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response = self._answered(request, *args, **kwargs)
        if self.refusal is not None and 400 <= response.status_code < 500:
            self._note(self.refusal, str(kwargs.get("stream", "")))
        return response

    def _answered(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        answer = partial(super().dispatch, request, *args, **kwargs)
        if request.method not in READS:
            return answer()
        try:
            response = in_one_transaction(answer, self._account_for)
        except GrantConsumed as refusal:
            self.withheld = refusal
        except Exception as error:
            logger.exception("An answer could not be written to the ledger and was withheld.")
            WITHHELD.inc()
            self.withheld = error_responses.unwritten(error)
        if self.withheld is None:
            return response
        return self._refusing(self.withheld, request, *args, **kwargs)

    def _refusing(
        self, refusal: Refusal, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """Render the refusal in place of an answer, without running the request again."""
        if not isinstance(self.request, Request):  # the transaction never began
            self.request = self.initialize_request(request, *args, **kwargs)
            self.headers = self.default_response_headers
        response = self.handle_exception(refusal)
        return self.finalize_response(self.request, response, *args, **kwargs)

    def _note(self, refusal: Refusal, stream: str) -> None:
        """For the owner, who may ask why."""
        if self.caller is None:
            note_unlet(refusal, route=self._route, request_id=self.request_id)
            return
        note_refused(
            self.caller,
            refusal,
            route=self._route,
            request_id=self.request_id,
            stream=stream,
            known=self.parameters,
        )

    @property
    def _route(self) -> str:
        handed_over = hasattr(self.request._request, "pdpp_scope")  # noqa: SLF001
        name = _WORDS.sub(" ", type(self).__name__.removesuffix("View")).lower()
        return f"{'mcp' if handed_over else 'rest'} {name}"

    def shown_in(self, response: HttpResponseBase) -> Sequence[Shown]:
        """The records and fields that an answer lets the caller see."""
        body = response.data  # type: ignore[attr-defined] # DRF's own; streams override this
        return shown(
            body,
            gate=self.gate,
            connection_id=self.query.connection_id(),
            by=self.filtered_by,
        )

    def told_by(self, refusal: Refusal) -> Sequence[Shown]:
        """The records that a refusal tells something of; most tell of none."""
        return []

    @property
    def filtered_by(self) -> frozenset[str]:
        return frozenset(name for keys, _ in self.query.nested("filter") for name in keys[:1])

    @property
    def _asked_of(self) -> Sequence[GrantTerms]:
        """The grants that an answer stands on which shows nothing of any."""
        return (self.concerned if self.asks_all else ()) or self.scope.grants[:1]

    def _account_for(self, response: HttpResponseBase) -> None:
        """What is answered is written down; what is refused counts as a call all the same, so that
        guessing has its limit too."""
        try:
            if self.unspoken:
                return
            if 200 <= response.status_code < 300 or response.status_code == 304:
                self._write_down(response, self.shown_in(self.unchanged or response))
            elif response.status_code < 500 and response.status_code != 429 and self.is_let_in:
                self._account_for_refusal(response)
        except RateLimitExceeded as refusal:
            self.withheld = refusal

    def _account_for_refusal(self, response: HttpResponseBase) -> None:
        if self.refusal and (told := self.told_by(self.refusal)):
            self._write_down(response, told)
        else:
            charge_call(self.scope, self._asked_of, now=timezone.now())

    def _write_down(self, response: HttpResponseBase, told: Sequence[Shown]) -> None:
        answer = Answer(
            route=self._route,
            request_id=self.request_id,
            shown=told,
            asked_of=[str(grant.grant_id) for grant in self._asked_of],
            size_bytes=_size(response),
        )
        record(self.scope, answer, now=timezone.now())

    @override
    def perform_authentication(self, request: Request) -> None:
        super().perform_authentication(request)
        if isinstance(request.auth, Scope):
            self.caller = request.auth

    @override
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        scope = self.caller
        if scope is None:
            raise AuthenticationRequired
        if (
            self.owner_only or request.method in self.owner_methods
        ) and scope.kind is not TokenKind.OWNER:
            raise WrongTokenKind(message="Only the owner's own token may do this.")
        self.scope = scope
        named = self.query.text("connection_id") or self.query.text("connector_instance_id")
        self.concerned = concerned(scope, stream=kwargs.get("stream"), connection_id=named)
        self.asks_all = self.asks_all or "stream" in kwargs or named is not None
        refuse_used_up(scope, self.concerned, now=timezone.now())
        if request.method not in READS:  # those are charged with what they have shown
            charge_call(scope, self._asked_of, now=timezone.now())
        self.gate = Gate(scope, connector_id=self.query.text("connector_id"))
        self.is_let_in = True

    @override
    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        if self.conditional and response.status_code == 200:
            tag = entity_tag(response.data)
            if tag in tags(request.headers.get("If-None-Match", "")):
                self.unchanged, response = response, Response(status=304)
            response["ETag"] = tag
            response["Cache-Control"] = "private, no-cache"
            response["Vary"] = "Authorization"
        return super().finalize_response(request, response, *args, **kwargs)


def _size(response: HttpResponseBase) -> int:
    """Bytes of the answer: of its JSON, or as many as a stream announces; a HEAD streams nothing."""
    if isinstance(response, Response):
        return 0 if response.data is None else len(orjson.dumps(response.data))
    return int(response.get("Content-Length", "0")) if response.streaming else 0


def _is_unsupported_version(response: Response) -> bool:
    data = getattr(response, "data", None)  # a stream of bytes has none
    return isinstance(data, dict) and data.get("error", {}).get("code") == "unsupported_version"
