class OpenBuffer:
    """The bytes of an object that C code has opened. Python code has no use for it."""
