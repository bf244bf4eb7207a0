"""Raise the three warnings 危険操作, 根拠不足 and 曖昧質問. They do not depend on the model that answers."""
