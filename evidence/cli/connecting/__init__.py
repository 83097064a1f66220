"""From a provider's URL to a credential in the cache (contract 1.8)."""
