"""Raise the three warnings: 危険操作 (dangerous operation), 根拠不足 (insufficient evidence), 曖昧質問 (ambiguous question).

They do not depend on the model that answers.
"""
