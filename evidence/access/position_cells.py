"""Count visible records by cells of a grid over their positions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from evidence.access.granted_streams import number_expression
from evidence.access.records import VisibleRecords
from evidence.access.sql import SQL, fetch_all

CELLS_PER_SIDE: Final = 36
MIN_DEGREES: Final = 0.01
"""The smallest side of the grid: about a kilometer."""

COUNT_BY_CELL: Final = """
-- Records by cell of a grid over all positions: mean position, number, latest time, most frequent name.
-- Parameters: those of the rows, smallest side, cells per side, maximum. One query.
WITH u AS MATERIALIZED ({rows}),
b AS MATERIALIZED (
    SELECT greatest(max(u.latitude) - min(u.latitude), max(u.longitude) - min(u.longitude), %s) / %s
        AS size
    FROM u
)
SELECT avg(u.latitude)::float8, avg(u.longitude)::float8, count(*), max(u.at),
    mode() WITHIN GROUP (ORDER BY u.name), min(b.size)::float8
FROM u CROSS JOIN b
GROUP BY round(u.latitude / b.size), round(u.longitude / b.size)
ORDER BY 3 DESC, 1, 2 LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """The records near one position. `size` is the side of the cell in degrees.

    `reach` is the distance in degrees of several cells taken as one place.
    """

    latitude: float
    longitude: float
    records: int
    last: datetime | None
    name: str | None
    size: float
    reach: float = 0.0


def count_by_cell(
    visible: VisibleRecords, latitude: str, longitude: str, *, name: str | None, limit: int
) -> list[Cell]:
    """Return the cells with the most records. Impossible positions do not count. One query."""
    columns = _position(visible, latitude) + SQL(" AS latitude, ")
    columns += _position(visible, longitude) + SQL(" AS longitude, r.consent_time AS at, ")
    shown = None if name is None else visible.shown_field(name, param="field").name
    columns += SQL("r.data->>%s AS name", (shown or "",))
    where = near(visible, latitude, longitude, position=(0.0, 0.0), reach=(90.0, 180.0))
    rows = visible.select(columns, [where])
    values = (*rows.values, MIN_DEGREES, CELLS_PER_SIDE, limit)
    return [Cell(*row) for row in fetch_all(SQL(COUNT_BY_CELL.format(rows=rows.text), values))]


def near(
    visible: VisibleRecords,
    latitude: str,
    longitude: str,
    *,
    position: tuple[float, float],
    reach: tuple[float, float],
) -> SQL:
    """Return a condition that a record is within `reach` degrees of a position."""
    condition = SQL("")
    for name, center, distance in zip((latitude, longitude), position, reach, strict=True):
        condition += SQL(" AND ") + _position(visible, name)
        condition += SQL(" BETWEEN %s AND %s", (center - distance, center + distance))
    return condition


def _position(visible: VisibleRecords, name: str) -> SQL:
    return number_expression(visible, visible.filter_field(name, param="field"))
