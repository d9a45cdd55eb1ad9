"""Benchmarks of yiemagent against a floor of bare requests."""
