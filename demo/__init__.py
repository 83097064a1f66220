"""The demo data: four invented years of Ida Falkner, generated from a fixed seed.

Ida localizes maps. She lives in Hamburg, moves to Lyon in July 2024 and to Osaka in September 2025.
Her mother writes in Spanish, her father in German, her friends in six languages. `stories/` holds
records written by hand, `texts/` holds templates for everyday mail, chat and bookings, and
`hostile.py` generates records that try to mislead a reader. `questions.toml` holds questions with
answers, `relevance.toml` holds relevance judgments for searches.
"""
