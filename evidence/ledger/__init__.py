"""What was disclosed to whom, written in the transaction of the read and provable afterwards."""
