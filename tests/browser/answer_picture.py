"""Render the picture of an agent's answer in the README from two real tool calls over the demo data."""

import html
import json
import tempfile
from pathlib import Path
from typing import Any

import httpx2
from asgiref.sync import async_to_sync
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from selenium.webdriver import Chrome

from tests.browser.chromium import resize

QUESTION = "What yearly salary did Cartolab offer me?"
SEARCH = {"q": "offer salary Localization Engineer"}
QUOTE = "salary 64,500 euros a year"
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 28px; width: 860px; background: #f6f8fa; color: #1f2328;
       font: 17px/1.5 system-ui, sans-serif; }}
p {{ margin: 0 0 14px; }}
.you {{ background: #1d4ed8; color: #fff; border-radius: 14px; padding: 10px 16px; width: fit-content;
        margin-left: auto; }}
pre {{ background: #fff; border: 1px solid #d0d7de; border-radius: 8px; padding: 12px 16px; margin: 0 0 14px;
       white-space: pre-wrap; font: 14px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; color: #57606a; }}
blockquote {{ margin: 0 0 14px; border-left: 4px solid #1d4ed8; padding-left: 14px; color: #57606a; }}
mark {{ background: #fff3b0; }}
</style>
<p class="you">{question}</p>
<pre>search {arguments}
→ {title}
  {match}</pre>
<p>Cartolab offered you <b>64,500 euros a year</b>:</p>
<blockquote>{quote}</blockquote>
<p>Source: <i>{title}</i>, {date}, {id}</p>
"""


def take(browser: Chrome, file: Path, *, url: str, token: str) -> None:
    """Ask the demo server, check that it proves the quote, and save the picture."""
    hit, text = async_to_sync(_ask)(url, token)
    if QUOTE not in text:
        raise AssertionError(f"The demo data does not say: {QUOTE}")
    begin = text.index(QUOTE)
    sentence = text[text.rindex("We offer", 0, begin) : text.index("\n", begin)].replace("\n", " ")
    page = PAGE.format(
        question=QUESTION,
        arguments=html.escape(json.dumps(SEARCH)),
        match=_marked(hit["match"]),
        quote=html.escape(f"“{sentence.rstrip(',')} …”"),
        **{name: html.escape(hit[name]) for name in ("title", "date", "id")},
    )
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as saved:
        saved.write(page)
        saved.flush()
        browser.get(f"file://{saved.name}")
        resize(browser, (916, 392))
        browser.save_screenshot(str(file))


async def _ask(url: str, token: str) -> tuple[dict[str, Any], str]:
    """Return the first hit, and the field around its match."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        found = _parsed(await client.call_tool("search", SEARCH))
        hit = found["results"][0]
        window = await client.call_tool(
            "read_record_field", {"id": hit["id"], "field_path": hit["field"], "q": "salary"}
        )
        return hit, _parsed(window)["window"]["text"]


def _parsed(result: Any) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(result.content[0].text)
    return parsed


def _marked(match: str) -> str:
    escaped = html.escape(match.replace("\n", " "))
    return escaped.replace("&lt;mark&gt;", "<mark>").replace("&lt;/mark&gt;", "</mark>")
