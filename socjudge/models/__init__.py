"""Call models: hosted models, LangChain's, your own, and the embedded default."""
