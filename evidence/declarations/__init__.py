"""Source declarations: what a source holds, and how its values are told apart. Pure, no Django."""
