"""One encrypted file that holds everything, and the way back from it."""
