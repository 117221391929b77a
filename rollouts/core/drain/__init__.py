"""How long pods that lose their traffic are kept, and how a drain ends."""
