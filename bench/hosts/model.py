"""A local model server that makes hosts call tools, and records what they show it.

It speaks the streaming APIs that the hosts use: Anthropic messages, OpenAI responses and chat
completions, and Gemini. Each turn it makes the next call of CALLS; after the last it ends.
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("schema", {}),
    ("search", {"q": "goose"}),
    ("query_records", {"stream": "transactions", "connection_id": "cin_demo_bank", "limit": 3}),
)
Json = dict[str, Any]


@dataclass(slots=True)
class ScriptedModel:
    """The model's side of one conversation: what it saw of each call, in order."""

    views: list[str] = field(default_factory=list)

    def next_call(self, views: list[str], tools: object) -> tuple[Json, Json] | None:
        """Return a tool as the host names it and its arguments, or None to end the conversation."""
        if len(views) > len(self.views):
            self.views = views
        offered = list(_named(tools))
        if len(views) >= len(CALLS):
            return None
        name, arguments = CALLS[len(views)]
        named = [tool for tool in offered if f"_{tool['name']}".endswith(f"_{name}")]
        # A host's own tools may end in the same word, such as grep_search.
        named.sort(key=lambda tool: "pdpp" not in str(tool))
        return (named[0], arguments) if named else None


def _named(value: object, namespace: str | None = None) -> Iterator[Json]:
    """Yield name and namespace of every tool of a request, however it nests them."""
    if isinstance(value, list):
        for each in value:
            yield from _named(each, namespace)
    elif isinstance(value, dict):
        name = value.get("name")
        inner = [value[key] for key in ("tools", "functionDeclarations") if key in value]
        if isinstance(name, str) and not inner:
            yield {"name": name, **({"namespace": namespace} if namespace else {})}
        yield from _named(inner, name if isinstance(name, str) else namespace)
        yield from _named(value.get("function"), namespace)


def _texts(value: object) -> str:
    """Return the text of a tool result: a string, or a list of parts with text."""
    if isinstance(value, list):
        return "".join(_texts(part) for part in value)
    if isinstance(value, dict):
        return str(value["text"]) if "text" in value else json.dumps(value, ensure_ascii=False)
    return str(value)


def _anthropic(model: ScriptedModel, body: Json) -> Iterator[Json]:
    parts = [
        part
        for message in body.get("messages", [])
        if isinstance(message["content"], list)
        for part in message["content"]
    ]
    views = [_texts(each.get("content")) for each in parts if each.get("type") == "tool_result"]
    call = model.next_call(views, body.get("tools"))
    usage = {"input_tokens": 1, "output_tokens": 1}
    yield {"type": "message_start", "message": {
        "id": "m", "type": "message", "role": "assistant", "model": "scripted", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage}}  # fmt: skip
    block: dict[str, Any]
    if call is None:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}
    else:
        tool, arguments = call
        block = {"type": "tool_use", "id": f"toolu_{len(views)}", "name": tool["name"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = {"stop_reason": "end_turn" if call is None else "tool_use", "stop_sequence": None}
    yield {"type": "message_delta", "delta": reason, "usage": usage}
    yield {"type": "message_stop"}


def _responses(model: ScriptedModel, body: Json) -> Iterator[Json]:
    items = [item for item in body.get("input", []) if item.get("type") == "function_call_output"]
    views = [_texts(item["output"]) for item in items]
    call = model.next_call(views, body.get("tools"))
    yield {"type": "response.created", "response": {"id": "r"}}
    if call is None:
        content = [{"type": "output_text", "text": "Done."}]
        item = {"type": "message", "role": "assistant", "id": "m", "content": content}
    else:
        tool, arguments = call
        item = {"type": "function_call", "call_id": f"call_{len(views)}", **tool,
                "arguments": json.dumps(arguments)}  # fmt: skip
    yield {"type": "response.output_item.done", "item": item}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield {"type": "response.completed", "response": {"id": "r", "usage": usage}}


def _chat(model: ScriptedModel, body: Json) -> Iterator[Json]:
    results = [each for each in body.get("messages", []) if each.get("role") == "tool"]
    views = [_texts(each["content"]) for each in results]
    call = model.next_call(views, body.get("tools"))
    delta: Json = {"role": "assistant", "content": "Done."}
    if call is not None:
        tool, arguments = call
        function = {"name": tool["name"], "arguments": json.dumps(arguments)}
        made = {"index": 0, "id": f"call_{len(views)}", "type": "function", "function": function}
        delta = {"role": "assistant", "tool_calls": [made]}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    yield {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = "stop" if call is None else "tool_calls"
    yield {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def _gemini(model: ScriptedModel, body: Json) -> Iterator[Json]:
    parts = [part for content in body.get("contents", []) for part in content.get("parts", [])]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    views = [_texts(each["response"].get("output", each["response"])) for each in results]
    call = model.next_call(views, body.get("tools"))
    part: Json = {"text": "Done."}
    if call is not None:
        part = {"functionCall": {"name": call[0]["name"], "args": call[1]}}
    content = {"role": "model", "parts": [part]}
    yield {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
    }


_DIALECTS = {
    "/messages": _anthropic,
    "/responses": _responses,
    "/chat/completions": _chat,
    "GenerateContent": _gemini,
    "generateContent": _gemini,
}


class ModelServer(ThreadingHTTPServer):
    """Serves the scripted model on a free local port; set `model` for each host."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = ScriptedModel()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        body = json.loads(self.rfile.read(length) or b"{}")
        path = self.path.partition("?")[0]
        dialect = next((each for end, each in _DIALECTS.items() if path.endswith(end)), None)
        if dialect is None or not isinstance(self.server, ModelServer):
            self._send(404, "application/json", b"{}")
            return
        events = list(dialect(self.server.model, body))
        if path.endswith(":generateContent"):
            self._send(200, "application/json", json.dumps(events[0]).encode())
            return
        lines = [
            (f"event: {event['type']}\n" if "type" in event else "")
            + f"data: {json.dumps(event)}\n\n"
            for event in events
        ]
        if dialect is _chat:
            lines.append("data: [DONE]\n\n")
        self._send(200, "text/event-stream", "".join(lines).encode())

    def do_GET(self) -> None:
        self._send(404, "application/json", b"{}")

    def _send(self, status: int, content_type: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
