"""Keep the files of a WebDAV server, such as Nextcloud, as the documents that an import makes.

A file is an item of the folder that the owner chose, named by its path in it. It is read again when
its ETag changes.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from io import BytesIO
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from evidence import limits
from importers.core.export_files import ExportFile
from importers.core.importer import Options
from importers.core.results import ExportItem, ReceiptCode, issue_only
from importers.core.source import (
    Checkpoint,
    Container,
    Event,
    Gone,
    Item,
    ProblemCode,
    Source,
    SourceError,
    SourceRun,
)
from importers.core.source_http import (
    DAV,
    HttpClient,
    Resource,
    TooLargeError,
    basic_authorization,
    list_resources,
    require_success,
)
from importers.core.text_recognition import PICTURE_TYPES, SCAN_SUFFIXES, is_installed
from importers.documents import MEDIA_TYPES, parse_document

ROOT = "/"
"""Stands for the files that are directly at the address."""

BATCH_FILES = 50
BATCH_BYTES = 4 * 1024 * 1024
BATCH_SECONDS = 20.0
"""Recognizing the text of a scan may take a minute."""
MAX_KINDS = 50
RECOGNIZED = " ocr"
"""After the mark of a scan that was read with the extra for its text."""
_SUFFIX = re.compile(r"\.[a-z0-9]{1,8}")
MAX_FOLDERS = 20_000
NEXTCLOUD_ID = "{http://owncloud.org/ns}id"
PROPERTIES = (
    *(
        f"{DAV}{name}"
        for name in ("resourcetype", "getetag", "getcontentlength", "getlastmodified")
    ),
    NEXTCLOUD_ID,
)


class _Run:
    """One pass over the chosen folders."""

    def __init__(self, run: SourceRun, client: HttpClient) -> None:
        self._run = run
        self._client = client
        self._reads_pictures = is_installed()
        is_as_before = run.state.get("reads_pictures", False) == self._reads_pictures
        self._etags = dict(run.state.get("etags", {})) if is_as_before else {}
        self._skipped: dict[str, dict[str, int]] = {
            name: counts
            for name, counts in run.state.get("skipped", {}).items()
            if name in run.settings["containers"]
        }
        self._since = time.monotonic()
        self._done = self._files = self._bytes = 0

    def events(self) -> Iterator[Event]:
        missing = []
        root = _root(self._run)
        top = _children(self._client, root)
        folders = {_name(each): each for each in top if each.is_collection}
        for name in self._run.settings["containers"]:
            if name == ROOT:
                yield from self._compare(name, [("", top)])
            elif name not in folders:
                missing.append(name)
            else:
                # The ETag of a folder of Nextcloud changes with all files below it.
                has_whole = folders[name].text(NEXTCLOUD_ID)
                etag = folders[name].text(f"{DAV}getetag") if has_whole else ""
                if not etag or self._etags.get(name) != etag:
                    yield from self._compare(name, self._walk(folders[name].url))
                    self._etags[name] = etag
                    yield self._checkpoint()
        yield self._checkpoint(ends_pass=True)
        if missing:
            raise SourceError(ProblemCode.CONTAINER_MISSING, ", ".join(missing))

    def _compare(
        self, name: str, listings: Iterable[tuple[str, list[Resource]]]
    ) -> Iterator[Event]:
        """Yield changed files, then those that are gone. Count the files of other kinds."""
        seen: set[str] = set()
        skipped: Counter[str] = Counter()
        for path, resources in listings:
            all_files = {path + _name(each): each for each in resources if not each.is_collection}
            files = {ref: each for ref, each in all_files.items() if self._reads(each)}
            skipped.update(_kind(ref) for ref in all_files.keys() - files.keys())
            known = self._run.known(name, list(files))
            seen.update(all_files)
            for ref, file in files.items():
                mark = self._mark(file)  # scans are read again once their text can be recognized
                if known.get(ref, "") not in (mark, f"{mark}{RECOGNIZED}"):
                    yield from self._file(name, ref, file)
        for ref in self._run.known(name, None):
            if ref not in seen:
                yield Gone(name, ref)
        self._skipped[name] = dict(skipped.most_common(MAX_KINDS))

    def _reads(self, resource: Resource) -> bool:
        suffix = _suffix(resource)
        return suffix in MEDIA_TYPES or (self._reads_pictures and suffix in PICTURE_TYPES)

    def _mark(self, resource: Resource) -> str:
        is_recognized = self._reads_pictures and _suffix(resource) in SCAN_SUFFIXES
        return f"{_mark(resource)}{RECOGNIZED if is_recognized else ''}"

    def _walk(self, url: str) -> Iterator[tuple[str, list[Resource]]]:
        """Yield each folder below an address: its path there, and what is in it."""
        waiting, number = [("", url)], 0
        while waiting:
            path, folder = waiting.pop()
            children = _children(self._client, folder)
            yield path, children
            waiting += [
                (f"{path}{_name(each)}/", each.url) for each in children if each.is_collection
            ]
            number += 1
            if number > MAX_FOLDERS:
                raise SourceError(ProblemCode.WRONG_CONTENT, f"more than {MAX_FOLDERS:,} folders")

    def _file(self, folder: str, ref: str, resource: Resource) -> Iterator[Event]:
        content = self._download(resource)
        if content is None:
            parse = issue_only(ReceiptCode.TOO_LARGE)
        else:
            parse = partial(parse_document, _export_file(folder, ref, resource, content), Options())
        size = len(content or b"")
        item = ExportItem(f"{folder}/{ref}", "", size, parse)
        yield Item(folder, ref, self._mark(resource), item)
        self._done, self._files, self._bytes = self._done + 1, self._files + 1, self._bytes + size
        is_late = time.monotonic() - self._since >= BATCH_SECONDS
        if is_late or self._files >= BATCH_FILES or self._bytes >= BATCH_BYTES:
            yield self._checkpoint()

    def _download(self, resource: Resource) -> bytes | None:
        """Return the content, or None of a file that is too large."""
        length = resource.text(f"{DAV}getcontentlength")
        if length.isdecimal() and int(length) > limits.BLOB_MAX_BYTES:
            return None
        try:
            url, max_bytes = resource.url, limits.BLOB_MAX_BYTES
            response = self._client.request("GET", url, max_bytes=max_bytes)
        except TooLargeError:
            return None
        require_success(response)
        return response.body

    def _checkpoint(self, *, ends_pass: bool = False) -> Checkpoint:
        self._files = self._bytes = 0
        self._since = time.monotonic()
        skipped: Counter[str] = Counter()
        for counts in self._skipped.values():
            for kind, count in counts.items():
                needs = " (needs requirements-ocr.txt)" if kind in PICTURE_TYPES else ""
                skipped[f"{kind}{needs}"] += count
        state = {
            "etags": self._etags,
            "skipped": self._skipped,
            "reads_pictures": self._reads_pictures,
        }
        done = self._done
        return Checkpoint(state, done, done, ends_pass=ends_pass, skipped=skipped)


def _sign_in(run: SourceRun) -> HttpClient:
    authorization = basic_authorization(run.settings["user"], run.credential["password"])
    return HttpClient(run.network, run.settings["url"], authorization)


def _root(run: SourceRun) -> str:
    return f"{str(run.settings['url']).rstrip('/')}/"


def _children(client: HttpClient, folder: str) -> list[Resource]:
    """Return what is directly in a folder, without hidden files. The listing also has the folder."""
    base = _path(folder)
    return [
        each
        for each in list_resources(client, folder, PROPERTIES, depth=1)
        if _path(each.url).rpartition("/")[0] == base
        and not _name(each).startswith(".")
        and _name(each)
    ]


def _path(url: str) -> str:
    return urlsplit(url).path.rstrip("/")


def _name(resource: Resource) -> str:
    name = unquote(_path(resource.url).rpartition("/")[2])
    return "".join(char if char.isprintable() and char != "/" else "\ufffd" for char in name)


def _suffix(resource: Resource) -> str:
    return PurePosixPath(_name(resource)).suffix.lower()


def _kind(name: str) -> str:
    suffix = PurePosixPath(name).suffix.lower()
    return suffix if _SUFFIX.fullmatch(suffix) else "other"


def _mark(resource: Resource) -> str:
    """Return what changes with the content: the ETag, or else time and size."""
    names = ("getlastmodified", "getcontentlength")
    etag = resource.text(f"{DAV}getetag")
    return (etag or " ".join(resource.text(f"{DAV}{name}") for name in names))[:200]


def _export_file(folder: str, ref: str, resource: Resource, content: bytes) -> ExportFile:
    """Return a file as in an import of the folder, or as a file that is imported alone."""
    return ExportFile(
        name=ref,
        size=len(content),
        opener=lambda: nullcontext(BytesIO(content)),
        checksum=_mark(resource),
        modified_at=_modified_at(resource.text(f"{DAV}getlastmodified")),
        export=ref if folder == ROOT else folder,
    )


def _modified_at(written: str) -> datetime | None:
    try:
        return parsedate_to_datetime(written).astimezone()
    except (ValueError, OverflowError):
        return None


def _read(run: SourceRun) -> Iterator[Event]:
    with _sign_in(run) as client:
        yield from _Run(run, client).events()


def _list(run: SourceRun) -> list[Container]:
    with _sign_in(run) as client:
        names = [_name(each) for each in _children(client, _root(run)) if each.is_collection]
    folders = [Container(name, name, is_usual=True) for name in sorted(names)]
    return [Container(ROOT, "Files outside of folders", is_usual=True), *folders]


FILES = Source(run=_read, containers=_list)
