"""Short forms of what the tables of all apps share, for their initial migrations."""

from typing import Any

from django.db import migrations, models
from typing_extensions import override

from evidence.models.owners import OwnedKey, OwnedOne, SameOwner, current_owner

KEY = {"primary_key": True, "serialize": False}


def table(
    name: str, *fields: tuple[str, Any], manager: Any = None, **options: Any
) -> migrations.CreateModel:
    """Create a table. Its manager is called ``unscoped``, so that a read without a scope is seen."""
    is_owned = any(
        name == "owner" and (field.primary_key or not field.db_constraint) for name, field in fields
    )
    base = {"base_manager_name": "unscoped"} if is_owned else {}
    return migrations.CreateModel(
        name,
        [*fields],
        options={"default_manager_name": "unscoped", **base, **options},
        managers=[("unscoped", manager or models.Manager())],
    )


def row_id() -> Any:
    return models.BigAutoField(auto_created=True, verbose_name="ID", **KEY)


def text_key() -> Any:
    return models.TextField(db_collation="C", **KEY)


def composite(*columns: str) -> Any:
    return models.CompositePrimaryKey(*columns, blank=True, editable=False, **KEY)


def refers(to: str, on_delete: Any, **options: Any) -> Any:
    return models.ForeignKey(to=to, on_delete=on_delete, related_name="+", **options)


def belongs(to: str, on_delete: Any, **options: Any) -> Any:
    return models.OneToOneField(to=to, on_delete=on_delete, related_name="+", **options)


def owned() -> tuple[str, Any]:
    """Return the column ``owner_id`` of a table of one owner's rows."""
    options: Any = {"db_constraint": False, "db_index": False, "editable": False}
    field = refers("evidence.owner", models.DO_NOTHING, default=current_owner, **options)
    return "owner", field


def same(to: str, **options: Any) -> Any:
    return OwnedKey(to=to, db_index=False, related_name="+", **options)


def same_one(to: str, **options: Any) -> Any:
    return OwnedOne(to=to, db_index=False, related_name="+", **options)


class OwnerFirst(migrations.operations.base.Operation):
    """Let keys and unique indexes of an app's owned tables begin with the owner.

    Django names one column in the primary key and in each reference. Here the primary key and every
    unique constraint gain ``owner_id`` in front, and each ``OwnedKey`` becomes a foreign key of both
    columns with an index. Personal rows, which have no references, are named in ``without_owners``.
    """

    reduces_to_sql = True

    def __init__(self, *without_owners: str) -> None:
        self.without_owners = without_owners

    @override
    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change nothing that Django knows of."""

    @override
    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        models_ = [model for model in to_state.apps.get_models() if _is_owned(model, app_label)]
        for model in models_:
            schema_editor.execute(OWNER_IN_KEYS.format(table=_meta(model).db_table), params=None)
        for model in models_:
            for statement in _references(
                model, with_owner=model.__name__ not in self.without_owners
            ):
                schema_editor.execute(statement)

    @override
    def describe(self) -> str:
        return "Begin keys with the owner"


OWNER_IN_KEYS = """
DO $$
DECLARE key record;
BEGIN
    FOR key IN
        SELECT c.conname, CASE c.contype WHEN 'p' THEN 'PRIMARY KEY' ELSE 'UNIQUE' END AS kind,
            (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY k.place)
            FROM unnest(c.conkey) WITH ORDINALITY AS k(number, place)
            JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number) AS columns
        FROM pg_constraint c
        WHERE c.conrelid = '{table}'::regclass AND c.contype IN ('p', 'u')
    LOOP
        IF key.columns NOT LIKE 'owner_id%' THEN
            EXECUTE format('ALTER TABLE {table} DROP CONSTRAINT %I, ADD CONSTRAINT %I %s (owner_id, %s)',
                key.conname, key.conname, key.kind, key.columns);
        END IF;
    END LOOP;
END $$
"""


def _meta(model: Any) -> Any:
    return model._meta  # noqa: SLF001 - Django documents it


def _is_owned(model: Any, app_label: str) -> bool:
    meta = _meta(model)
    return meta.app_label == app_label and any(
        field.name == "owner" and not field.db_constraint for field in meta.concrete_fields
    )


def _references(model: Any, *, with_owner: bool) -> list[str]:
    table = _meta(model).db_table
    add = f"ALTER TABLE {table} ADD FOREIGN KEY"
    deferred = "DEFERRABLE INITIALLY DEFERRED"
    statements = []
    if with_owner:
        statements.append(f"{add} (owner_id) REFERENCES evidence_owner {deferred}")
    for field in _meta(model).concrete_fields:
        if isinstance(field, SameOwner):
            key: Any = field
            target = _meta(key.related_model)
            action = "ON DELETE CASCADE " if key.cascade else ""
            statements.append(
                f"{add} (owner_id, {key.column}) REFERENCES {target.db_table}"
                f" (owner_id, {target.pk.column}) {action}{deferred}"
            )
            if not key.unique:
                statements.append(f"CREATE INDEX ON {table} (owner_id, {key.column})")
    return statements
