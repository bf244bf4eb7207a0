"""Call models (hosted ones, LangChain's, your own and the embedded default), with their pacing, prices and event loop."""
