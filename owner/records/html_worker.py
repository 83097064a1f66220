"""The program that sanitizes the HTML of one record: from standard input to standard output.

Some HTML takes a parser minutes and gigabytes to make well-formed. The limits end this process then,
and not the server.
"""

import re
import resource
import sys

import nh3

CPU_SECONDS = 5
MEMORY_BYTES = 1024 * 1024 * 1024
TAGS = (nh3.ALLOWED_TAGS - {"map", "area"}) | {"font", "tfoot"}
CONTENT_TAGS = {"embed", "iframe", "math", "noembed", "noframes", "noscript", "object", "script",
                "select", "style", "svg", "template", "textarea", "title", "xmp"}  # fmt: skip
"""Tags whose content is no text to show."""
_OF_CELLS = {"width", "height", "colspan", "rowspan", "nowrap"}
ATTRIBUTES = {
    "*": {"align", "bgcolor", "dir", "lang", "style", "title", "valign"},
    "a": {"href"},
    "font": {"color", "face", "size"},
    "hr": {"size", "width"},
    "img": {"alt", "border", "height", "src", "width"},
    "ol": {"start", "type"},
    "table": {"border", "cellpadding", "cellspacing", "height", "width"},
    "td": _OF_CELLS,
    "th": _OF_CELLS,
    "ul": {"type"},
}
_SIDES = ("", "-top", "-right", "-bottom", "-left")
STYLES = {"background", "background-color", "color", "direction", "display", "float", "height",
          "letter-spacing", "line-height", "max-width", "min-width", "overflow-wrap", "table-layout",
          "text-align", "text-decoration", "text-indent", "text-transform", "vertical-align",
          "white-space", "width", "word-break"}  # fmt: skip
STYLES |= {f"{name}{side}" for name in ("border", "margin", "padding") for side in _SIDES}
STYLES |= {
    f"border-{name}" for name in ("collapse", "color", "radius", "spacing", "style", "width")
}
STYLES |= {f"font-{name}" for name in ("family", "size", "style", "variant", "weight")} | {"font"}
# A reference to something else, or what could hide one from this pattern.
_LOADING_STYLE = re.compile(r"[\\@<]|/\*|(?<!rgb)(?<!rgba)(?<!hsl)(?<!hsla)\(", re.I)
_LINK = re.compile(r"(?:https?|mailto):", re.I)
_PICTURE = re.compile(r"cid:|data:image/(?:gif|jpeg|png|webp);base64,", re.I)
_BODY_TAG = re.compile(r"<(/?)body(?![\w-])", re.I)


def sanitize(html: str) -> str:
    """Return HTML without scripts, forms, frames, and everything that loads from elsewhere.

    Pictures remain that it contains, or that it names by ``cid:``.
    """
    # The body has no place in a fragment, but colors that its text needs.
    return nh3.clean(
        _BODY_TAG.sub(r"<\1div", html),
        tags=TAGS,
        clean_content_tags=CONTENT_TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=_allowed_value,
        filter_style_properties=STYLES,
        set_tag_attribute_values={"a": {"target": "_blank"}},
        url_schemes={"http", "https", "mailto", "cid", "data"},
        url_relative="deny",
    )


def _allowed_value(tag: str, name: str, value: str) -> str | None:
    if name == "href":
        return value if _LINK.match(value.strip()) else None
    if name == "src":
        return value if _PICTURE.match(value.strip()) else None
    if name == "style":
        kept = (each for each in value.split(";") if not _LOADING_STYLE.search(each))
        return ";".join(kept) or None
    return value


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    source = sys.stdin.buffer.read().decode("utf-8", "replace")
    sys.stdout.buffer.write(sanitize(source).encode())
