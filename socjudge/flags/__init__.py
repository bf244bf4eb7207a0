"""The three warnings, whatever model answers: 危険操作, 根拠不足, 曖昧質問."""
