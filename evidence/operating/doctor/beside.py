"""What the server does beside requests: imports, erasures, vectors, upkeep, messages of changes."""

from evidence.operating.doctor.asking import Answer
from evidence.operating.doctor.findings import Side, Unseen, Wrong, doubtful
from evidence.operating.doctor.state import State


def goes_on(state: State) -> str:
    """The server's own word for it, which a proxy need not forward."""
    try:
        said = _asked(state).json or {}
    except Wrong:
        said = {}
    if said.get("status") != "ready":
        raise Unseen(
            "/readyz does not say from here; ask it on the server's own machine, or walk to there."
        )
    if "warning" in said:
        raise doubtful(
            "work_waits",
            Side.SERVER,
            seen=str(said["warning"]),
            change="Keep one server running without PDPP_BACKGROUND=false (manage.py run). Where one "
            "runs, its log says what fails.",
        )
    return "Somebody does what goes on beside requests"


def _asked(state: State) -> Answer:
    return state.asking.get(f"{state.origin}/readyz")
