"""One trial on several ranks: rank 0 decides, and all ranks stop together."""

from acetune.trial.ranks import Broadcast, SharedTrial, torch_broadcast

__all__ = ["Broadcast", "SharedTrial", "torch_broadcast"]
