"""Tell exports of Facebook from those of Instagram, and find the files that they mention."""

import re
from collections.abc import Mapping, Sequence

from importers.core.export_files import ExportFile

_FACEBOOK = re.compile(
    r"(?:^|/)(?:your_facebook_activity|friends_and_followers|connections/friends|posts/your_posts"
    r"|profile_information|posts/album|comments_and_reactions|likes_and_reactions)",
)
_INSTAGRAM = re.compile(
    r"(?:^|/)(?:your_instagram_activity|followers_and_following|connections/followers_and_following"
    r"|content/posts_|media/(?:posts|stories|reels)/|account_information|instagram_)"
)


def find_service(file: ExportFile, files: Sequence[ExportFile]) -> str | None:
    """Return the service of an export by the path of the file, the export's name or other paths."""
    for text in (file.name, file.head.decode("utf-8", "replace"), file.export.lower()):
        if found := _service_of(text):
            return found
    if "facebook" in file.export.lower() or "instagram" in file.export.lower():
        return "facebook" if "facebook" in file.export.lower() else "instagram"
    found_services = {found for each in files if (found := _service_of(each.name))}
    return found_services.pop() if len(found_services) == 1 else None


def _service_of(text: str) -> str | None:
    is_facebook, is_instagram = bool(_FACEBOOK.search(text)), bool(_INSTAGRAM.search(text))
    if is_facebook == is_instagram:
        return None
    return "facebook" if is_facebook else "instagram"


def claim_service(files: Sequence[ExportFile], service: str) -> list[ExportFile]:
    """Return the JSON files of this service."""
    # The paths of an export decide for all its files without evidence of their own.
    by_export: dict[str, str | None] = {}
    claimed = []
    for file in files:
        if file.suffix != ".json":
            continue
        found = _service_of(file.name)
        if found is None:
            if file.export not in by_export:
                by_export[file.export] = find_service(file, files)
            found = by_export[file.export]
        if found == service:
            claimed.append(file)
    return claimed


def find_mentioned(
    uri: str | None, file: ExportFile, files: Mapping[str, ExportFile]
) -> ExportFile | None:
    """Return the file with this path in the export that contains ``file``, at any depth."""
    if not uri:
        return None
    for folder in file.path.parents:
        name = uri if str(folder) == "." else f"{folder}/{uri}"
        if name in files:
            return files[name]
    return None
