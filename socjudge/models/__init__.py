"""Models: hosted ones, LangChain's, your own and the embedded default; their pacing, prices and event loop."""
