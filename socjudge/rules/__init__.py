"""What can be seen in a text without a model: dangers, the three warning flags, facts that must agree."""
