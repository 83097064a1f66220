"""Short forms of what the tables of all apps share, for their initial migrations."""

from typing import Any

from django.db import migrations, models

KEY = {"primary_key": True, "serialize": False}


def table(
    name: str, *fields: tuple[str, Any], manager: Any = None, **options: Any
) -> migrations.CreateModel:
    """Create a table. Its manager is called ``unscoped``, so that a read without a scope is seen."""
    return migrations.CreateModel(
        name,
        [*fields],
        options={"default_manager_name": "unscoped", **options},
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
