"""Does an address that the server advertises lead back to where it was asked?"""

import ipaddress
from urllib.parse import urlsplit

from evidence.operating.doctor.findings import Side, Wrong, wrong

PUBLIC = "PDPP_PUBLIC_URL"
LOCAL = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


def misplaced(told: str, *, wanted: str, what: str) -> Wrong | None:
    """The diagnosis where `told` is not on the origin of `wanted`; None where it is."""
    there, here = urlsplit(told), urlsplit(wanted)
    seen = f"The server was asked at {here.scheme}://{here.netloc}, and gives {what} as {told}"
    if (there.scheme, there.netloc) == (here.scheme, here.netloc):
        return None
    if there.netloc == here.netloc and (there.scheme, here.scheme) == ("http", "https"):
        return wrong(
            "http_behind_https",
            Side.SERVER,
            seen=seen,
            change=f"Set {PUBLIC} to the https:// address: behind a TLS proxy the server cannot know.",
        )
    return wrong(
        "wrong_public_url",
        Side.SERVER,
        seen=seen,
        change=f"Set {PUBLIC} to {here.scheme}://{here.netloc}, the address that hosts are given.",
    )


def is_private(url: str) -> bool:
    """Whether the address means something only on this machine or in this network."""
    host = (urlsplit(url).hostname or "").lower()
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith(LOCAL)
