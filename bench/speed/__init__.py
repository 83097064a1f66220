"""How fast a running server is, measured from outside and beside what could be had at best.

`make bench` loads a corpus into an installation of its own, serves it, asks every kind of question
with one client and with eight, checks the answers against what the corpus is known to hold, and
asks a second process, the floor, for the same rows without any of the product's work in between.
"""
