"""Say what a problem of a live source means to the owner."""

from typing import NamedTuple

from importers.core.source import ProblemCode


class ProblemText(NamedTuple):
    """What the owner reads. ``needs_owner``: trying again changes nothing until the owner acts."""

    problem: str
    side: str
    next_step: str
    needs_owner: bool = False


YOURS, SERVERS, OURS = "your settings", "the server or the network", "this installation"

PROBLEM_TEXTS: dict[ProblemCode, ProblemText] = {
    ProblemCode.PASSWORD_REFUSED: ProblemText(
        "The password was refused.",
        YOURS,
        "Create an app password at your provider, and enter it here.",
        needs_owner=True,
    ),
    ProblemCode.CREDENTIAL_UNREADABLE: ProblemText(
        "The stored password or sign-in cannot be read: the installation's key has changed.",
        OURS,
        "Enter the password again, or sign in again.",
        needs_owner=True,
    ),
    ProblemCode.SIGN_IN_ENDED: ProblemText(
        "The provider ended the sign-in.",
        YOURS,
        "Sign in again. What is stored stays.",
        needs_owner=True,
    ),
    ProblemCode.SIGN_IN_UNAVAILABLE: ProblemText(
        "The provider's address for tokens did not answer as it should.",
        SERVERS,
        "The next attempt is automatic.",
    ),
    ProblemCode.CLIENT_REFUSED: ProblemText(
        "The provider refused the client.",
        YOURS,
        "Check the client ID, the client secret and the redirect URI there, and sign in again.",
        needs_owner=True,
    ),
    ProblemCode.TOKEN_REFUSED: ProblemText(
        "The mail server refused the sign-in.",
        SERVERS,
        "Check that you signed in as this user, and that IMAP is allowed for the account.",
    ),
    ProblemCode.HOST_UNKNOWN: ProblemText(
        "The name of the server does not exist.", YOURS, "Correct the address of the server."
    ),
    ProblemCode.PRIVATE_ADDRESS: ProblemText(
        "The server has a private address.",
        YOURS,
        "If it is in your own network, allow private addresses for this account.",
        needs_owner=True,
    ),
    ProblemCode.UNREACHABLE: ProblemText(
        "The server does not accept connections.",
        SERVERS,
        "Check the address and the port. The next attempt is automatic.",
    ),
    ProblemCode.BAD_CERTIFICATE: ProblemText(
        "The server's certificate is not valid for its name, so no password was sent.",
        SERVERS,
        "Check the address. For a certificate of your own, set SSL_CERT_FILE.",
    ),
    ProblemCode.NO_TLS: ProblemText(
        "The server offers no encryption, so no password was sent.",
        SERVERS,
        "Use the port for TLS, usually 993.",
        needs_owner=True,
    ),
    ProblemCode.TOO_SLOW: ProblemText(
        "The server did not answer in time.", SERVERS, "The next attempt is automatic."
    ),
    ProblemCode.CONNECTION_LOST: ProblemText(
        "The connection was lost.", SERVERS, "The next attempt is automatic, and continues there."
    ),
    ProblemCode.SERVER_REFUSED: ProblemText(
        "The server refused a request.", SERVERS, "The next attempt is automatic."
    ),
    ProblemCode.NOT_FOUND: ProblemText(
        "The server has nothing at this address.", YOURS, "Correct the address."
    ),
    ProblemCode.MOVED: ProblemText(
        "The address leads to another server, which got no password.",
        YOURS,
        "If that server is your provider's, allow it.",
        needs_owner=True,
    ),
    ProblemCode.WRONG_CONTENT: ProblemText(
        "The address has something else than expected.", YOURS, "Correct the address."
    ),
    ProblemCode.CONTAINER_MISSING: ProblemText(
        "A chosen folder no longer exists; the others are up to date.",
        YOURS,
        "Choose the folders again.",
    ),
    ProblemCode.SOURCE_MISSING: ProblemText(
        "The package of this source is not installed.", OURS, "Install it again, and restart."
    ),
    ProblemCode.SOURCE_FAILED: ProblemText(
        "The source failed.", OURS, "Report the error. The next attempt is automatic."
    ),
    ProblemCode.STORAGE_FAILED: ProblemText(
        "The records could not be stored.", OURS, "Check the disk and the database."
    ),
}
