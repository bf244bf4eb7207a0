"""Prompt templates: the built-in ones, saved ones, and how they are filled."""
