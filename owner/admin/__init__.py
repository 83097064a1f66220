"""Pages for the owner of the records. Importing the modules registers them with the site."""

from owner.admin import clients as clients
from owner.admin import grants as grants
from owner.admin import sources as sources
