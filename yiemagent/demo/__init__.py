"""The demonstration: a wine cellar behind tools, an offline model, and the command line.

Nothing of the library needs this room; it is what a newcomer meets first. Only this room prints.
"""
