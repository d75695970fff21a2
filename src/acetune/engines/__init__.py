"""Where trials run. Each engine is an edge: the decisions are made by the coordinator."""
