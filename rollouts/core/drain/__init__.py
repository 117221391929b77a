"""How long pods that lose their traffic are kept, and what tells that a drain is over."""
