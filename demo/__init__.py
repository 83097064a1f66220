"""The demo life: Ida Falkner, four years, made from a fixed seed. Nobody and nothing here is real.

Ida looks after the languages of maps. She lives in Hamburg, moves to Lyon in July 2024 and to Osaka
in September 2025; her mother writes in Spanish, her father in German, her friends in whatever they
think in. `stories/` holds what happened to her, written by hand; `texts/` holds everyday mail, chat
and bookings as templates; `hostile.py` holds the corner that tries to mislead its reader.
`questions.toml` asks about her life and proves the answers, `relevance.toml` judges searches in it.
"""
