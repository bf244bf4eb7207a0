"""Raise the three warnings, whichever model answers: 危険操作, 根拠不足, 曖昧質問."""
