"""A fake REST API in memory for unit tests of the tools.

It follows the REST rules that the adapter relies on, including byte limits, and records every call.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

import orjson

from evidence.api import envelopes
from evidence.page_cutter import Size, json_size
from mcp_adapter.rest import NO_HEADERS, Params, RestResponse

WORK = ("cin_work", "Work mail", "mailbox")
HOME = ("cin_home", "Home mail", "mailbox")
BANK = ("cin_bank", "First Bank", "bank")
META = {"count": 10_000, "accuracy": "exact", "recall": {"complete": True, "scope": "all_matches"}}


@dataclass
class FakeRest:
    """`records` are (connection_id, stream, key, data); `answers` override whole paths."""

    connections: Sequence[tuple[str, str, str]] = (WORK, HOME)
    records: list[tuple[str, str, str, dict[str, Any]]] = field(default_factory=list)
    expand: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    fields: dict[str, dict[str, str]] = field(default_factory=dict)
    answers: dict[str, RestResponse] = field(default_factory=dict)
    blobs: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    authorities: list[object] = field(default_factory=list)
    has_pages: bool = True

    def get(
        self,
        path: str,
        params: Params,
        authority: object,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> RestResponse:
        """Respond to a GET, and record it in `calls`."""
        given = dict(params)
        self.calls.append((path, given))
        self.authorities.append(authority)
        if path in self.answers:
            return self.answers[path]
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match parts[1:]:
            case ["schema"]:
                return self._schema(given)
            case ["search"]:
                return self._search(given)
            case ["blobs", blob_id]:
                return self._blob(blob_id, headers)
            case ["streams", name]:
                return RestResponse(200, {"object": "stream_metadata", "name": name})
            case ["streams", name, "records"]:
                return self._list(name, given)
            case ["streams", name, "aggregate"]:
                return self._aggregate(name, given)
            case ["streams", name, "records", key]:
                return self._detail(name, key, given)
            case ["streams", name, "records", key, "field-window"]:
                return self._window(name, key, given)
        return error_response(404, "not_found")

    def paths(self) -> list[str]:
        """Return the requested paths, in order."""
        return [path for path, _ in self.calls]

    # schema

    def _schema(self, given: dict[str, str]) -> RestResponse:
        stream_name, only = given.get("stream"), given.get("connection_id")
        connectors = []
        for key in dict.fromkeys(connector for _, _, connector in self.connections):
            mine = [
                {"connection_id": cid, "display_name": label}
                for cid, label, connector in self.connections
                if connector == key and only in (None, cid)
            ]
            names = [name for name in self._streams(key) if stream_name in (None, name) and mine]
            if names:
                connectors.append(self._connector(key, mine, names, given))
        detail = given.get("detail") or given.get("view") or "compact"
        return RestResponse(
            200,
            {
                "object": "schema",
                "detail": detail,
                "connector_count": len(connectors),
                "stream_count": sum(len(self._streams(c["connector_key"])) for c in connectors),
                "connectors": connectors,
                "links": {"self": "/v1/schema"},
                "meta": {"count": {"kind": "none"}, "warnings": []},
            },
        )

    def _streams(self, connector: str) -> list[str]:
        mine = {cid for cid, _, key in self.connections if key == connector}
        stored = [stream for cid, stream, _, _ in self.records if cid in mine]
        declared = [
            name.partition("/")[2] for name in self.fields if name.startswith(f"{connector}/")
        ]
        return list(dict.fromkeys([*stored, *declared]))

    def _connector(
        self, key: str, mine: list[dict[str, str]], names: list[str], given: dict[str, str]
    ) -> dict[str, Any]:
        head = {"connector_key": key, "display_name": key.title(), "granted_connections": mine}
        if given.get("view") == "index":
            return {**head, "stream_names": names}
        full = given.get("detail") == "full"
        return {**head, "streams": [self._row(key, name, full=full) for name in names]}

    def _row(self, connector: str, name: str, *, full: bool) -> dict[str, Any]:
        flags = self.fields.get(f"{connector}/{name}") or {
            field: "t=string,eq,lex"
            for _, stream, _, data in self.records
            if stream == name
            for field in data
        }
        row: dict[str, Any] = {
            "name": name,
            "primary_key": ["id"],
            "cursor_field": "sent_at",
            "sort": ["sent_at"],
            "search_modes": ["lexical"],
            "count": ["exact", "estimated"],
            "field_capabilities": flags,
        }
        if full:
            row["schema"] = {
                "type": "object",
                "properties": {field: {"type": "string"} for field in flags},
            }
            row["field_capabilities"] = {field: {"granted": True} for field in flags}
        if self.expand.get(name) is not None:
            row["expand_capabilities"] = self.expand[name]
        return row

    # records

    def _visible(self, stream: str, given: dict[str, str]) -> list[dict[str, Any]]:
        only = given.get("connection_id")
        fields = given["fields"].split(",") if "fields" in given else None
        return [
            self._record(row, fields)
            for row in self.records
            if row[1] == stream and only in (None, row[0])
        ]

    def _record(
        self, row: tuple[str, str, str, dict[str, Any]], fields: list[str] | None
    ) -> dict[str, Any]:
        cid, stream, key, data = row
        page = data if fields is None else {k: v for k, v in data.items() if k in fields}
        return {"object": "record", "id": key, "stream": stream, **self._labels(cid),
                "emitted_at": "2026-08-01T10:00:00Z", "version": "v1", "data": page}  # fmt: skip

    def _labels(self, cid: str) -> dict[str, str]:
        label, connector = next(
            ((label, key) for known, label, key in self.connections if known == cid), ("", "")
        )
        return {
            "connection_id": cid,
            "connector_instance_id": cid,
            "connector_key": connector,
            "display_name": label,
        }

    def _list(self, stream: str, given: dict[str, str]) -> RestResponse:
        matches = self._visible(stream, given)
        if not matches and stream not in {row[1] for row in self.records}:
            return error_response(404, "not_found")
        return self._page(matches, given, f"/v1/streams/{stream}/records")

    def _page(self, matches: list[Any], given: dict[str, str], url: str) -> RestResponse:
        start = int(given.get("cursor", "c0")[1:])
        end = min(start + int(given.get("limit", "25")), len(matches))
        items = [item() if callable(item) else item for item in matches[start:end]]
        form = list_form_of(given)
        frame = Size(
            envelopes.EMPTY_BYTES + 2 * len(url) + json_size(META) + 40, json_size(META) + 100
        )
        fitted = (
            envelopes.ItemPage(items, {})
            if is_unserializable(items)
            else envelopes.fit_items(items, form, frame)
        )
        page = fitted.items
        body: dict[str, Any] = {
            "object": "list",
            "url": url,
            "has_more": start + len(page) < len(matches),
            **fitted.shared,
            "data": page,
            "links": {"self": url, "next": None},
            "meta": {"count": {"kind": "none"}, "warnings": []},
        }
        if given.get("count") == "exact":
            body["meta"]["count"] = {"kind": "exact", "value": len(matches)}
        if body["has_more"]:
            body["next_cursor"] = f"c{start + len(page)}"
        if "changes_since" in given:
            body["next_changes_since"] = f"b{start + len(page)}"
        return RestResponse(200, body)

    def _one(self, stream: str, key: str, given: dict[str, str]) -> Any:
        matches = [record for record in self._visible(stream, given) if record["id"] == key]
        if len(matches) > 1:
            candidates = [
                {
                    "connection_id": record["connection_id"],
                    "display_name": record["display_name"],
                    "connector_key": record["connector_key"],
                    "grant_id": "grt_1",
                }
                for record in matches
            ]
            return error_response(
                409,
                "ambiguous_connection",
                param="connection_id",
                retry_with="connection_id",
                available_connections=candidates,
                available_connection_count=len(candidates),
                available_connections_truncated=False,
                available_connections_omitted=0,
            )
        return matches[0] if matches else error_response(404, "not_found")

    def _detail(self, stream: str, key: str, given: dict[str, str]) -> RestResponse:
        record = self._one(stream, key, given)
        if isinstance(record, RestResponse):
            return record
        if is_unserializable(record):
            return RestResponse(200, record)
        return RestResponse(200, envelopes.fit_item(record, list_form_of(given)))

    def _window(self, stream: str, key: str, given: dict[str, str]) -> RestResponse:
        record = self._one(stream, key, {k: v for k, v in given.items() if k == "connection_id"})
        if isinstance(record, RestResponse):
            return record
        value = value_at(record["data"], given["field"])
        if value is None:
            return error_response(404, "field_not_found", param="field")
        text = value if isinstance(value, str) else json.dumps(value)
        window = build_window(text, given)
        if window is None:
            return error_response(404, "query_not_found", param="q")
        return RestResponse(
            200,
            {
                "object": "field_window",
                "stream": stream,
                "record_id": key,
                "connection_id": record["connection_id"],
                "connector_key": record["connector_key"],
                "field": {"path": given["field"], **field_metadata(value)},
                "window": window,
            },
        )

    # the rest

    def _search(self, given: dict[str, str]) -> RestResponse:
        word, only = given["q"].lower(), given.get("connection_id")
        hits: list[Any] = []
        for cid, stream, key, data in self.records:
            match = next(
                (
                    (name, text.lower().index(word))
                    for name, text in data.items()
                    if isinstance(text, str) and word in text.lower()
                ),
                None,
            )
            if only in (None, cid) and (match or word in key.lower()):
                hits.append(partial(self._hit, cid, stream, key, data, match, len(word)))
        answer = self._page(hits, given, "/v1/search")
        assert isinstance(answer.body, dict)
        answer.body["meta"] |= {
            "count": len(hits),
            "count_accuracy": "exact",
            "recall": {"complete": True, "ranking_scope": "all_matches", "truncated": False},
        }
        return answer

    def _hit(
        self,
        cid: str,
        stream: str,
        key: str,
        data: dict[str, Any],
        match: tuple[str, int] | None,
        length: int,
    ) -> dict[str, Any]:
        hit = {
            "object": "search_result",
            "stream": stream,
            "record_key": key,
            **self._labels(cid),
            "emitted_at": "2026-08-01T10:00:00Z",
            "record_url": f"/v1/streams/{quote(stream)}/records/{quote(key, safe='')}"
            f"?connection_id={cid}",
            "evidence_excerpts": [],
        }
        if isinstance(data.get("subject"), str):
            hit["title"] = data["subject"]
        if "sent_at" in data:
            hit["authored_at"] = data["sent_at"]
        if match:
            hit["evidence_excerpts"] = [excerpt(data[match[0]], match[0], match[1], length)]
        return hit

    def _aggregate(self, stream: str, given: dict[str, str]) -> RestResponse:
        matches = self._visible(stream, {k: v for k, v in given.items() if k == "connection_id"})
        body: dict[str, Any] = {
            "object": "aggregation",
            "stream": stream,
            "metric": given["metric"],
            "meta": {"count": {"kind": "none"}, "warnings": []},
        }
        if "group_by" not in given:
            return RestResponse(200, {**body, "value": len(matches)})
        keys = [str(record["data"].get(given["group_by"])) for record in matches]
        groups = [{"key": key, "count": keys.count(key)} for key in dict.fromkeys(keys)]
        limit = int(given.get("limit", "10"))
        other = sum(group["count"] for group in groups[limit:])
        body |= {"group_by": given["group_by"], "groups": groups[:limit], "other_count": other}
        return RestResponse(200, body)

    def _blob(self, blob_id: str, headers: Mapping[str, str]) -> RestResponse:
        if blob_id not in self.blobs:
            return error_response(404, "blob_not_found")
        media_type, content = self.blobs[blob_id]
        first, _, last = headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        end = int(last) + 1 if last else len(content)
        part = content[int(first) : end]
        about = {
            "Content-Type": media_type,
            "Content-Range": f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}",
        }
        return RestResponse(206, part, about)


def error_response(status: int, code: str, **members: Any) -> RestResponse:
    """Return an error response in the shape of REST."""
    body = {"type": "api_error", "code": code, "message": "Refused.", "request_id": "req_1"}
    return RestResponse(status, {"error": {**body, **members}})


def is_unserializable(value: object) -> bool:
    """Return whether the value has a lone surrogate, which the real API cannot store."""
    try:
        orjson.dumps(value)
    except TypeError:
        return True
    return False


def list_form_of(given: Mapping[str, str]) -> envelopes.ListForm:
    """Return the form of a request for the real page-cutting code."""
    max_bytes, lines = given.get("max_bytes"), given.get("max_line_bytes")
    return envelopes.ListForm(
        given.get("form") == "compact",
        int(max_bytes) if max_bytes else None,
        int(lines) if lines else None,
    )


def value_at(data: Mapping[str, Any], path: str) -> Any:
    """Return the value at a field name or JSON Pointer, or None."""
    value: Any = data
    tokens = path[1:].split("/") if path.startswith("/") else [path]
    for token in tokens:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = value[int(name)] if name.isdecimal() and int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def field_metadata(value: Any) -> dict[str, Any]:
    """Return the metadata of the field that a window belongs to."""
    if isinstance(value, str):
        return {"type": "string", "size_bytes": len(value.encode())}
    kind = {list: "array", dict: "object", bool: "boolean"}.get(type(value), "number")
    body = {"type": kind, "media_type": "application/json", "size_bytes": len(json.dumps(value))}
    if isinstance(value, dict) and "blob_id" in value:
        body["blob"] = {"blob_id": value["blob_id"], "fetch_url": f"/v1/blobs/{value['blob_id']}"}
    return body


def build_window(text: str, given: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the requested window, or None if `q` does not occur."""
    limit = int(given.get("limit_chars", "4096"))
    start, match = int(given.get("offset_chars", "0")), {}
    if "q" in given:
        at = -1
        for _ in range(int(given.get("occurrence", "1"))):
            at = text.lower().find(given["q"].lower(), at + 1)
            if at < 0:
                return None
        before = int(given.get("before_chars", str(limit // 2)))
        start = max(0, at - before)
        match = {"match_start_chars": at, "match_end_chars": at + len(given["q"])}
    start = min(start, len(text))
    end = min(start + limit, len(text))
    return {
        "text": text[start:end],
        "start_chars": start,
        "end_chars": end,
        "limit_chars": limit,
        "total_chars": len(text),
        "complete": start == 0 and end == len(text),
        "has_more": end < len(text),
        "next_offset_chars": end if end < len(text) else None,
        "previous_offset_chars": max(0, start - limit) if start else None,
        **match,
    }


def excerpt(text: str, name: str, at: int, length: int) -> dict[str, Any]:
    """Return an evidence excerpt with up to 60 characters on each side of the match."""
    start, end = max(0, at - 60), min(len(text), at + length + 60)
    lead, trail = "…" if start else "", "…" if end < len(text) else ""
    plain = f"{lead}{text[start:end]}{trail}"
    marked = f"{text[start:at]}<mark>{text[at : at + length]}</mark>{text[at + length : end]}"
    marked = f"{lead}{marked}{trail}"
    return {
        "object": "evidence_excerpt",
        "field_path": name,
        "preview_text": marked,
        "plain_text": plain,
        "start_chars": start,
        "end_chars": end,
        "match_start_chars": at,
        "match_end_chars": at + length,
        "truncated": start > 0 or end < len(text),
        "provenance": "lexical_match",
        "read": {"object": "field_window_read", "method": "GET", "field": name},
    }
