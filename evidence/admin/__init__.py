"""Pages for the owner of the records. Importing the modules registers them with the site."""

from evidence.admin import clients as clients
from evidence.admin import connections as connections
from evidence.admin import grants as grants
from evidence.admin import imports as imports
from evidence.admin import sources as sources
from evidence.admin import tokens as tokens
from evidence.admin import users as users
