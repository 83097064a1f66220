"""Database tables, one module per topic; import tables from their own module.

Importing these modules registers the models with Django. Tables are not re-exported, so that import
contracts can restrict each module.
"""

from evidence.models import clients as clients
from evidence.models import connections as connections
from evidence.models import events as events
from evidence.models import grants as grants
from evidence.models import ledger as ledger
from evidence.models import quotas as quotas
from evidence.models import records as records
from evidence.models import sources as sources
