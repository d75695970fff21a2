"""The core: goals, history, cost model, decisions. No framework, no I/O, no clock."""
