"""yiemagent: the agent runtime for synchronous Python."""
