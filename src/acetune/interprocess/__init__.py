"""Other processes of this machine: start a bare interpreter, talk to it, send it users' code."""
