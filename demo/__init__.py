"""The demo life: one fictional person, four years, made from a fixed seed. Nothing here is real."""
