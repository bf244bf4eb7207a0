"""Call models: hosted ones, LangChain's, your own, and the embedded default. Pacing, prices and the event loop are here
too.
"""
