"""The paper's tables and figures again, on recorded curves: ours beside theirs."""
