"""A model behind one door: hosted, LangChain's or the embedded default; pacing, prices, the event loop."""
