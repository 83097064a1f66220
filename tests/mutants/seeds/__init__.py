"""The faults: in which file, which text becomes which, and what would be wrong with the product."""

from tests.mutants.seeds import events, records, sign_in, strangers, trust
from tests.mutants.seeds.mutant import Mutant as Mutant

MUTANTS = (*records.SEEDS, *sign_in.SEEDS, *trust.SEEDS, *events.SEEDS, *strangers.SEEDS)
