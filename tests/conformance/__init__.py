"""Conformance: the same requests against a real API server and the embedded hub.

``sequences/`` says what is asked, ``recorded/`` what the real server answered, ``runner`` asks a
server and normalises its answers, ``compare`` finds differences. README.md tells the format.
"""
