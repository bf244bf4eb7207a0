"""Call models: hosted models, LangChain's, your own, and the embedded default.

Pacing, prices and the background event loop are here too.
"""
